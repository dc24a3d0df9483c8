// The numbers that every row of a tile has, by lanes: its scale, its range of keys, its maximum and sum.
#pragma once

#include <cstddef>
#include <limits>

#include "call/attention_call.hpp"
#include "contract/log.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A result over some keys, relative to the largest score of each row. The weighted sums of values are
// elsewhere.
template <class T>
struct RowSums {
  static constexpr std::size_t count = rapt::attention_tile_rows;
  alignas(64) T max[count];
  alignas(64) T sum[count];

  void clear() {
    for (std::size_t i = 0; i < count; i += simd<T>::width) {
      simd<T>::store(max + i, typename simd<T>::batch(-std::numeric_limits<T>::infinity()));
      simd<T>::store(sum + i, typename simd<T>::batch(T(0)));
    }
  }
};

template <class T>
class TileRows {
 public:
  using S = simd<T>;
  using batch = typename S::batch;
  using Row = AttentionTile::Row;
  static constexpr std::size_t count = rapt::attention_tile_rows;

  explicit TileRows(const AttentionTile &tile) : rows(tile.rows()) {
    Row row = tile.row(0);
    const rapt_attention_options &o = tile.options();
    AttentionScale<T> scale(tile, row);
    made = scale.made;
    cap = scale.cap;
    const bool scales_differ = o.query_scales != nullptr, slopes_differ = o.alibi_slopes != nullptr;
    // Lanes after the last row are copies of it, so that nothing need know them.
    lanes = (rows + S::width - 1) / S::width * S::width;
    AttentionTile::Range seen = tile.range(row);
    for (std::size_t r = 0; r < lanes; ++r) {
      if (r > 0 && r < rows) {
        row = tile.next(row);
        seen = tile.range(row);
        if (scales_differ || slopes_differ) scale = AttentionScale<T>(tile, row);
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

  // Of the rows of a vector: the keys that any of them sees, and those that all do (which may be none).
  struct VectorRange {
    AttentionTile::Range any{~std::size_t{0}, 0};
    AttentionTile::Range all{0, ~std::size_t{0}};
  };

  // What distances are taken from: -inf - -inf would be NaN.
  [[gnu::always_inline]] static batch reference_of(batch max) {
    const batch none(-std::numeric_limits<T>::infinity());
    return S::select(S::equal(max, none), batch(T(0)), max);
  }

  // Takes in the maximum of a block for the rows of a vector: `reference` becomes what distances are taken
  // from, `rescale` what results so far are multiplied by. Whether any factor is not 1.
  [[gnu::always_inline]] bool take_max(RowSums<T> &sums, std::size_t r, batch block_max) {
    const batch before = S::load(sums.max + r);
    const batch max = S::max_number(block_max, before);
    const batch from = reference_of(max);
    const batch factor_now = weight(r, before - from);
    S::store(sums.max + r, max);
    S::store(reference + r, from);
    S::store(rescale + r, factor_now);
    return S::any(S::negate(S::equal(factor_now, batch(T(1)))));
  }
  [[gnu::always_inline]] batch weight(std::size_t r, batch distance) const {
    return Weight<T>()(distance, S::load(to_log2 + r), S::load(cutoff + r));
  }
  [[gnu::always_inline]] void take_sum(RowSums<T> &sums, std::size_t r, batch block_sum) const {
    S::store(sums.sum + r, S::fma(S::load(sums.sum + r), S::load(rescale + r), block_sum));
  }

  // Folds `next` into `total`, and leaves in rescale and rescale_next what their values are multiplied by.
  void fold(RowSums<T> &total, const RowSums<T> &next) {
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

  // What the values are multiplied by at the end, in `rescale`, and each row's log-sum-exp.
  void finish(const AttentionTile &tile, const RowSums<T> &total) {
    using C = rapt::AttentionContract<T>;
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const bool has_sinks = tile.options().sinks != nullptr, has_lse = tile.options().lse != nullptr;
    T sum[count], base[count], sink_log2[count], sink_as_is[count];
    for (std::size_t r = 0; r < lanes; r += S::width) {
      S::store(sum + r, S::load(total.sum + r));
      S::store(rescale + r, batch(T(1)));
    }
    if (has_sinks) {
      for (std::size_t r = 0; r < lanes; ++r) {
        sink_as_is[r] = tile.sink<T>(of[r]);
        sink_log2[r] = static_cast<T>(double{tile.sink<T>(of[r])} * C::log2_e);
      }
      for (std::size_t r = 0; r < lanes; r += S::width) {
        const batch cutoff_log2(C::lowest_log2), one(T(1)), none(-infinity);
        const batch largest = S::load(total.max + r) * S::load(to_log2 + r), sink = S::load(sink_log2 + r);
        const batch top = S::select(S::less(largest, sink), sink, largest);
        const batch to_weight = Weight<T>()(largest - top, one, cutoff_log2);
        const batch added = Weight<T>()(sink - top, one, cutoff_log2);
        const auto without = S::equal(S::load(sink_as_is + r), none);
        const batch before = S::load(sum + r);
        S::store(rescale + r, S::select(without, one, to_weight));
        S::store(sum + r, S::select(without, before, S::fma(before, to_weight, added)));
        S::store(base + r, top);
      }
    }
    for (std::size_t r = 0; has_lse && r < rows; ++r) {
      T &lse = *tile.lse<T>(of[r]);
      if (total.max[r] == -infinity && total.sum[r] == 0) {
        lse = tile.sink<T>(of[r]);
      } else {
        const bool with_sink = has_sinks && tile.sink<T>(of[r]) != -infinity;
        const double from = with_sink ? double{base[r]} * C::ln_2 : double{total.max[r]} * to_natural[r];
        lse = std::isfinite(sum[r]) && std::isfinite(from) ? static_cast<T>(from + log_of_sum(double{sum[r]}))
                                                           : std::numeric_limits<T>::quiet_NaN();
      }
    }
    for (std::size_t r = 0; r < lanes; r += S::width) {
      const batch zero(T(0));
      // The largest score is -inf and the sum 0: nothing has been seen. (The sum of NaN scores is NaN.)
      const auto some = S::either(S::negate(S::equal(S::load(total.max + r), batch(-infinity))),
                                  S::negate(S::equal(S::load(total.sum + r), zero)));
      S::store(rescale + r, S::select(some, S::divide(S::load(rescale + r), S::load(sum + r)), zero));
      S::store(seen + r, S::select(some, batch(T(1)), zero));
    }
  }

  // Values that are stored as they are.
  void leave_as_is() {
    for (std::size_t r = 0; r < lanes; r += S::width) {
      S::store(rescale + r, batch(T(1)));
      S::store(seen + r, batch(T(1)));
    }
  }

  // out = value * rescale, in the rows that have seen anything; never -0.
  [[gnu::always_inline]] batch finished(batch value, batch factor_now, batch was_seen) const {
    const batch zero(T(0));
    // Not fused: a product that underflows would come out as -0.
    return S::select(S::equal(was_seen, zero), zero, value * factor_now + zero);
  }

  std::size_t rows, lanes;
  bool made;
  T cap;
  Row of[count];
  std::size_t first[count], end[count];
  VectorRange of_vector[count / S::width];
  alignas(64) T to_log2[count];
  alignas(64) T cutoff[count];
  alignas(64) T sign[count];
  alignas(64) T factor[count];
  alignas(64) T slope[count];
  alignas(64) T reference[count];
  alignas(64) T rescale[count];
  alignas(64) T rescale_next[count];
  alignas(64) T seen[count];
  double to_natural[count];
};

}  // namespace
