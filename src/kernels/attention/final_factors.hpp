// Finishes a tile: adds the sinks to the sums, and computes the log-sum-exp and the values' last factor.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/attention_tile.hpp"
#include "contract/log.hpp"
#include "kernels/attention/bf16_rule.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class A>
class FinalFactors {
 public:
  using S = simd<A>;
  using batch = typename S::batch;
  using C = rapt::AttentionContract<A>;

  // This constructor is for partial results, whose values are stored unchanged.
  explicit FinalFactors(const TileRows<A> &rows) {
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      S::store(factor_ + r, batch(A(1)));
      S::store(seen_ + r, batch(A(1)));
    }
  }

  // This constructor is for the outputs of whole rows. It also writes each row's log-sum-exp if lse is given.
  FinalFactors(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total) {
    alignas(64) A sum[count], top_sink[count];
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      S::store(sum + r, S::load(total.sum + r));
      S::store(factor_ + r, batch(A(1)));
      S::store(seen_ + r, batch(A(0)));
    }
    if (tile.options().sinks) add_sinks(tile, rows, total, sum, top_sink);
    if (tile.options().lse) write_lse(tile, rows, total, sum, top_sink);
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      const batch zero(A(0));
      // A row that sees no key has maximum -inf and sum 0. (The sum of NaN scores is NaN.)
      const auto has_keys = S::either(S::negate(S::equal(S::load(total.max + r), batch(-infinity))),
                                      S::negate(S::equal(S::load(total.sum + r), zero)));
      const auto some = S::either(has_keys, S::negate(S::equal(S::load(seen_ + r), zero)));
      S::store(factor_ + r, S::select(some, S::divide(S::load(factor_ + r), S::load(sum + r)), zero));
      S::store(seen_ + r, S::select(some, batch(A(1)), zero));
    }
  }

  // Holds the values' factor, and whether a row sees a key. The lanes are rows, or all lanes are one row.
  struct Of {
    batch factor, seen;

    // Returns value * factor in rows that see a key, and +0 in the others. The result is never -0.
    RAPT_INNER batch operator()(batch value) const {
      const batch zero(A(0));
      // Not fused: with an fma, a tiny negative product would round to -0.
      return S::select(S::equal(seen, zero), zero, value * factor + zero);
    }
  };
  RAPT_INNER Of of_rows(std::size_t r) const { return {S::load(factor_ + r), S::load(seen_ + r)}; }
  RAPT_INNER Of of_row(std::size_t r) const { return {batch(factor_[r]), batch(seen_[r])}; }

 private:
  static constexpr std::size_t count = rapt::attention_tile_rows;
  static constexpr A infinity = std::numeric_limits<A>::infinity();

  // Adds the sinks to the sums. If a sink is above the row's largest score, sum[r] becomes relative to it, and
  // top_sink[r] is the sink. Otherwise top_sink[r] is -inf.
  void add_sinks(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total, A *sum,
                 A *top_sink) {
    A sink_log2[count], sink_as_is[count];
    for (std::size_t r = 0; r < rows.lanes; ++r) {
      sink_as_is[r] = tile.sink<A>(rows.of[r]);
      sink_log2[r] = static_cast<A>(double{sink_as_is[r]} * C::log2_e);
    }
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      const batch cutoff_log2(C::lowest_log2), one(A(1)), none(-infinity);
      const batch largest = S::load(total.max + r) * S::load(rows.to_log2 + r), sink = S::load(sink_log2 + r);
      const auto above = S::less(largest, sink);
      const batch top = S::select(above, sink, largest);
      const batch to_weight = Weight<A>()(largest - top, one, cutoff_log2);
      const batch added = Weight<A>()(sink - top, one, cutoff_log2);
      const batch as_is = S::load(sink_as_is + r);
      const auto without = S::equal(as_is, none);
      const batch before = S::load(sum + r);
      S::store(factor_ + r, S::select(without, one, to_weight));
      S::store(sum + r, S::select(without, before, S::fma(before, to_weight, added)));
      S::store(top_sink + r, S::select(above, as_is, none));
      // A sink of NaN makes even a row without keys NaN.
      S::store(seen_ + r, S::select(S::unordered(as_is, as_is), one, batch(A(0))));
    }
  }

  // A sum that is the weight of what it is relative to has the logarithm 0.
  static void write_lse(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total,
                        const A *sum, const A *top_sink) {
    alignas(64) A max_weight[count];
    find_max_weights(tile, rows, total, max_weight);
    for (std::size_t r = 0; r < rows.rows; ++r) {
      A &lse = *tile.lse<A>(rows.of[r]);
      if (total.max[r] == -infinity && total.sum[r] == 0) {
        lse = tile.sink<A>(rows.of[r]);
      } else {
        const bool from_sink = tile.options().sinks && top_sink[r] != -infinity;
        const double from =
            double{from_sink ? top_sink[r] : total.max[r]} * (from_sink ? 1 : rows.to_natural[r]);
        const A relative = !from_sink && sum[r] == max_weight[r] ? A(1) : sum[r];
        lse = std::isfinite(sum[r]) && std::isfinite(from)
                  ? static_cast<A>(from + log_of_sum(double{relative}))
                  : std::numeric_limits<A>::quiet_NaN();
      }
    }
  }

  // Stores the weights of the scores total.max. They are 1, but in RAPT_ARITHMETIC_BF16 they may be rounded.
  static void find_max_weights(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total,
                               A *max_weight) {
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      batch weight(A(1));
      if constexpr (sizeof(A) == sizeof(float)) {
        if (tile.options().arithmetic == RAPT_ARITHMETIC_BF16) {
          weight = Bf16Reference(S::load(total.max + r), S::load(rows.to_log2 + r)).weight();
        }
      }
      S::store(max_weight + r, weight);
    }
  }

  alignas(64) A factor_[count];
  alignas(64) A seen_[count];
};

}  // namespace
