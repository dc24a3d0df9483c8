// Finishes a tile: adds the sinks to the sums, and computes the log-sum-exp and the values' last factor.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/attention_tile.hpp"
#include "contract/log.hpp"
#include "kernels/attention/row_sums.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/weight.hpp"

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
    A sum[count], base[count];
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      S::store(sum + r, S::load(total.sum + r));
      S::store(factor_ + r, batch(A(1)));
      S::store(seen_ + r, batch(A(0)));
    }
    if (tile.options().sinks) add_sinks(tile, rows, total, sum, base);
    if (tile.options().lse) write_lse(tile, rows, total, sum, base);
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
    [[gnu::always_inline]] batch operator()(batch value) const {
      const batch zero(A(0));
      // Not fused: with an fma, a tiny negative product would round to -0.
      return S::select(S::equal(seen, zero), zero, value * factor + zero);
    }
  };
  [[gnu::always_inline]] Of of_rows(std::size_t r) const {
    return {S::load(factor_ + r), S::load(seen_ + r)};
  }
  [[gnu::always_inline]] Of of_row(std::size_t r) const { return {batch(factor_[r]), batch(seen_[r])}; }

 private:
  static constexpr std::size_t count = rapt::attention_tile_rows;
  static constexpr A infinity = std::numeric_limits<A>::infinity();

  // Adds the sinks to the sums. Sets base[r] to the logit, in units of log 2, that sum[r] is relative to.
  void add_sinks(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total, A *sum,
                 A *base) {
    A sink_log2[count], sink_as_is[count];
    for (std::size_t r = 0; r < rows.lanes; ++r) {
      sink_as_is[r] = tile.sink<A>(rows.of[r]);
      sink_log2[r] = static_cast<A>(double{sink_as_is[r]} * C::log2_e);
    }
    for (std::size_t r = 0; r < rows.lanes; r += S::width) {
      const batch cutoff_log2(C::lowest_log2), one(A(1)), none(-infinity);
      const batch largest = S::load(total.max + r) * S::load(rows.to_log2 + r), sink = S::load(sink_log2 + r);
      const batch top = S::select(S::less(largest, sink), sink, largest);
      const batch to_weight = Weight<A>()(largest - top, one, cutoff_log2);
      const batch added = Weight<A>()(sink - top, one, cutoff_log2);
      const batch as_is = S::load(sink_as_is + r);
      const auto without = S::equal(as_is, none);
      const batch before = S::load(sum + r);
      S::store(factor_ + r, S::select(without, one, to_weight));
      S::store(sum + r, S::select(without, before, S::fma(before, to_weight, added)));
      S::store(base + r, top);
      // A sink of NaN makes even a row without keys NaN.
      S::store(seen_ + r, S::select(S::unordered(as_is, as_is), one, batch(A(0))));
    }
  }

  static void write_lse(const AttentionTile &tile, const TileRows<A> &rows, const RowSums<A> &total,
                        const A *sum, const A *base) {
    for (std::size_t r = 0; r < rows.rows; ++r) {
      A &lse = *tile.lse<A>(rows.of[r]);
      const A sink = tile.sink<A>(rows.of[r]);
      if (total.max[r] == -infinity && total.sum[r] == 0) {
        lse = sink;
      } else {
        const double from =
            sink != -infinity ? double{base[r]} * C::ln_2 : double{total.max[r]} * rows.to_natural[r];
        lse = std::isfinite(sum[r]) && std::isfinite(from) ? static_cast<A>(from + log_of_sum(double{sum[r]}))
                                                           : std::numeric_limits<A>::quiet_NaN();
      }
    }
  }

  alignas(64) A factor_[count];
  alignas(64) A seen_[count];
};

}  // namespace
