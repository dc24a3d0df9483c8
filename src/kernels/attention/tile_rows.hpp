// The numbers of a tile's rows, by lanes: scale, range of keys, maximum and sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/attention_scale.hpp"
#include "call/attention_tile.hpp"
#include "contract/bf16_arithmetic.hpp"
#include "contract/log.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A result over some keys, relative to the largest score of each row. Its weighted sums of values lie
// elsewhere.
template <class A>
struct RowSums {
  static constexpr std::size_t count = rapt::attention_tile_rows;
  alignas(64) A max[count];
  alignas(64) A sum[count];
  // RAPT_ARITHMETIC_BF16: a score s has z = (s - base) * to_log2 + offset.
  alignas(64) A base[count];
  alignas(64) A offset[count];

  void clear() {
    for (std::size_t i = 0; i < count; i += simd<A>::width) {
      simd<A>::store(base + i, typename simd<A>::batch(A(0)));
      simd<A>::store(offset + i, typename simd<A>::batch(A(0)));
      simd<A>::store(max + i, typename simd<A>::batch(-std::numeric_limits<A>::infinity()));
      simd<A>::store(sum + i, typename simd<A>::batch(A(0)));
    }
  }
};

template <class A>
class TileRows {
 public:
  using S = simd<A>;
  using batch = typename S::batch;
  using C = rapt::AttentionContract<A>;
  using Row = AttentionTile::Row;
  static constexpr std::size_t count = rapt::attention_tile_rows;
  static constexpr A infinity = std::numeric_limits<A>::infinity();

  explicit TileRows(const AttentionTile &tile) : rows(tile.rows()) {
    Row row = tile.row(0);
    const rapt_attention_options &o = tile.options();
    AttentionScale<A> scale(tile, row);
    made = scale.made;
    cap = scale.cap;
    const bool scales_differ = o.query_scales != nullptr, slopes_differ = o.alibi_slopes != nullptr;
    // Lanes after the last row are copies of it, so that no loop over vectors need know them.
    lanes = (rows + S::width - 1) / S::width * S::width;
    AttentionTile::Range seen = tile.range(row);
    for (std::size_t r = 0; r < lanes; ++r) {
      if (r > 0 && r < rows) {
        row = tile.next(row);
        seen = tile.range(row);
        if (scales_differ || slopes_differ) scale = AttentionScale<A>(tile, row);
      }
      of[r] = row;
      first[r] = seen.first;
      end[r] = seen.end;
      to_log2[r] = scale.to_log2;
      cutoff[r] = scale.cutoff;
      sign[r] = scale.sign;
      factor[r] = scale.factor;
      slope[r] = scale.slope;
      to_natural[r] = scale.to_natural;
    }
    for (std::size_t r = 0; r < lanes; ++r) {
      VectorRange &range = of_vector[r / S::width];
      if (end[r] < range.all.end) range.all.end = end[r];
      if (first[r] == end[r]) continue;
      if (first[r] > range.all.first) range.all.first = first[r];
      if (first[r] < range.any.first) range.any.first = first[r];
      if (end[r] > range.any.end) range.any.end = end[r];
    }
  }

  // The keys that any row sees; {0, 0} if none does.
  AttentionTile::Range range() const {
    AttentionTile::Range all = {~std::size_t{0}, 0};
    for (std::size_t v = 0; v < lanes / S::width; ++v) {
      if (of_vector[v].any.first < all.first) all.first = of_vector[v].any.first;
      if (of_vector[v].any.end > all.end) all.end = of_vector[v].any.end;
    }
    return all.end == 0 ? AttentionTile::Range{0, 0} : all;
  }

  // The keys that any row of a vector sees, and the keys that all of them see (perhaps none).
  struct VectorRange {
    AttentionTile::Range any{~std::size_t{0}, 0};
    AttentionTile::Range all{0, ~std::size_t{0}};
  };
  const VectorRange &vector_range(std::size_t r) const { return of_vector[r / S::width]; }

  // The score that distances are taken from: -inf - -inf would be NaN.
  [[gnu::always_inline]] static batch reference_of(batch max) {
    return S::select(S::equal(max, batch(-infinity)), batch(A(0)), max);
  }

  // Takes in the maximum of a block for a vector of rows. `reference` becomes the score that distances are
  // taken from, `rescale` the factor of the results so far. True if any factor is not 1.
  [[gnu::always_inline]] bool take_max(RowSums<A> &sums, std::size_t r, batch block_max) {
    const batch before = S::load(sums.max + r);
    const batch max = S::max_number(block_max, before);
    const batch from = reference_of(max);
    const batch factor_now = weight(r, before - from);
    S::store(sums.max + r, max);
    S::store(reference + r, from);
    S::store(rescale + r, factor_now);
    return S::any(S::negate(S::equal(factor_now, batch(A(1)))));
  }
  // The same for RAPT_ARITHMETIC_BF16, whose reference stays as long as no weight reaches 2.
  [[gnu::always_inline]] bool take_max_by_groups(RowSums<A> &sums, std::size_t r, batch block_max) {
    using B = rapt::Bf16Contract;
    const batch before = S::load(sums.max + r), base = S::load(sums.base + r),
                offset = S::load(sums.offset + r);
    const batch none(-infinity), zero(A(0)), one(A(1)), to = to_log2_by_groups(r);
    const auto has_none = S::equal(before, none);
    const batch z = S::fma(block_max - base, to, offset);
    const auto stays = S::either(S::equal(block_max, none),
                                 S::negate(S::either(has_none, S::negate(S::less(z, batch(B::move_from))))));
    const batch max = S::select(stays, before, block_max);
    const batch factor_now = S::select(S::either(stays, has_none), one, weight(r, before - max));
    const batch near = (zero - max) * to;
    const auto is_near = S::less(S::abs(near), batch(B::far));
    S::store(sums.max + r, max);
    S::store(sums.base + r, S::select(stays, base, S::select(is_near, zero, max)));
    S::store(sums.offset + r, S::select(stays, offset, S::select(is_near, near, zero)));
    S::store(rescale + r, factor_now);
    return S::any(S::negate(S::equal(factor_now, one)));
  }
  [[gnu::always_inline]] batch to_log2_by_groups(std::size_t r) const {
    return S::max(S::load(to_log2 + r), batch(rapt::Bf16Contract::least_to_log2));
  }
  A to_log2_by_groups_of(std::size_t r) const {
    return to_log2[r] == 0 ? A(rapt::Bf16Contract::least_to_log2) : to_log2[r];
  }
  [[gnu::always_inline]] batch weight(std::size_t r, batch distance) const {
    return Weight<A>()(distance, S::load(to_log2 + r), S::load(cutoff + r));
  }
  [[gnu::always_inline]] void take_sum(RowSums<A> &sums, std::size_t r, batch block_sum) const {
    S::store(sums.sum + r, S::fma(S::load(sums.sum + r), S::load(rescale + r), block_sum));
  }

  // Folds `next` into `total`; leaves the factors of their values in rescale_next and rescale.
  void fold(RowSums<A> &total, const RowSums<A> &next) {
    for (std::size_t r = 0; r < lanes; r += S::width) {
      const batch a_max = S::load(total.max + r), b_max = S::load(next.max + r);
      const batch max = S::max_number(b_max, a_max);
      const batch from = reference_of(max);
      const batch a = weight(r, a_max - from), b = weight(r, b_max - from);
      S::store(total.max + r, max);
      S::store(total.sum + r, S::fma(S::load(next.sum + r), b, S::load(total.sum + r) * a));
      S::store(rescale + r, a);
      S::store(rescale_next + r, b);
    }
  }

  // Leaves the final factor of the values in `rescale`, and writes each row's log-sum-exp.
  void finish(const AttentionTile &tile, const RowSums<A> &total) {
    A sum[count], base[count];
    for (std::size_t r = 0; r < lanes; r += S::width) {
      S::store(sum + r, S::load(total.sum + r));
      S::store(rescale + r, batch(A(1)));
      S::store(seen + r, batch(A(0)));
    }
    if (tile.options().sinks) take_sinks(tile, total, sum, base);
    if (tile.options().lse) write_lse(tile, total, sum, base);
    for (std::size_t r = 0; r < lanes; r += S::width) {
      const batch zero(A(0));
      // A row that has seen nothing has maximum -inf and sum 0. (The sum of NaN scores is NaN.)
      const auto has_keys = S::either(S::negate(S::equal(S::load(total.max + r), batch(-infinity))),
                                      S::negate(S::equal(S::load(total.sum + r), zero)));
      const auto some = S::either(has_keys, S::negate(S::equal(S::load(seen + r), zero)));
      S::store(rescale + r, S::select(some, S::divide(S::load(rescale + r), S::load(sum + r)), zero));
      S::store(seen + r, S::select(some, batch(A(1)), zero));
    }
  }

  // For values that are stored as they are.
  void finish_without_factor() {
    for (std::size_t r = 0; r < lanes; r += S::width) {
      S::store(rescale + r, batch(A(1)));
      S::store(seen + r, batch(A(1)));
    }
  }

  // value * rescale in the rows that have seen a key, +0 in the others; never -0.
  [[gnu::always_inline]] batch finished(batch value, batch factor_now, batch was_seen) const {
    const batch zero(A(0));
    // Not fused: a product that underflows would come out as -0.
    return S::select(S::equal(was_seen, zero), zero, value * factor_now + zero);
  }

  std::size_t rows, lanes;
  bool made;
  A cap;
  Row of[count];
  std::size_t first[count], end[count];
  VectorRange of_vector[count / S::width];
  alignas(64) A to_log2[count];
  alignas(64) A cutoff[count];
  alignas(64) A sign[count];
  alignas(64) A factor[count];
  alignas(64) A slope[count];
  alignas(64) A reference[count];
  alignas(64) A rescale[count];
  alignas(64) A rescale_next[count];
  alignas(64) A seen[count];
  double to_natural[count];

 private:
  // Adds the sinks to the sums. `base` becomes the logit, in units of log 2, that a sum is relative to.
  void take_sinks(const AttentionTile &tile, const RowSums<A> &total, A *sum, A *base) {
    A sink_log2[count], sink_as_is[count];
    for (std::size_t r = 0; r < lanes; ++r) {
      sink_as_is[r] = tile.sink<A>(of[r]);
      sink_log2[r] = static_cast<A>(double{tile.sink<A>(of[r])} * C::log2_e);
    }
    for (std::size_t r = 0; r < lanes; r += S::width) {
      const batch cutoff_log2(C::lowest_log2), one(A(1)), none(-infinity);
      const batch largest = S::load(total.max + r) * S::load(to_log2 + r), sink = S::load(sink_log2 + r);
      const batch top = S::select(S::less(largest, sink), sink, largest);
      const batch to_weight = Weight<A>()(largest - top, one, cutoff_log2);
      const batch added = Weight<A>()(sink - top, one, cutoff_log2);
      const auto without = S::equal(S::load(sink_as_is + r), none);
      const batch before = S::load(sum + r);
      S::store(rescale + r, S::select(without, one, to_weight));
      S::store(sum + r, S::select(without, before, S::fma(before, to_weight, added)));
      S::store(base + r, top);
      // A sink of NaN is seen by a row without keys too.
      const batch as_is = S::load(sink_as_is + r);
      S::store(seen + r, S::select(S::unordered(as_is, as_is), one, batch(A(0))));
    }
  }

  void write_lse(const AttentionTile &tile, const RowSums<A> &total, const A *sum, const A *base) const {
    for (std::size_t r = 0; r < rows; ++r) {
      A &lse = *tile.lse<A>(of[r]);
      const A sink = tile.sink<A>(of[r]);
      if (total.max[r] == -infinity && total.sum[r] == 0) {
        lse = sink;
      } else {
        const double from =
            sink != -infinity ? double{base[r]} * C::ln_2 : double{total.max[r]} * to_natural[r];
        lse = std::isfinite(sum[r]) && std::isfinite(from) ? static_cast<A>(from + log_of_sum(double{sum[r]}))
                                                           : std::numeric_limits<A>::quiet_NaN();
      }
    }
  }
};

}  // namespace
