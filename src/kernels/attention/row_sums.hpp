// Holds sums of weights over some keys, and folds the sums of two ranges of keys into one.
#pragma once

#include <cstddef>
#include <limits>

#include "contract/attention.hpp"
#include "kernels/attention/tile_rows.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Holds each row's largest score, and the sum of its weights relative to that score.
template <class A>
struct RowSums {
  static constexpr std::size_t count = rapt::attention_tile_rows;
  alignas(64) A max[count];
  alignas(64) A sum[count];

  void clear() {
    using S = simd<A>;
    for (std::size_t r = 0; r < count; r += S::width) {
      S::store(max + r, typename S::batch(-std::numeric_limits<A>::infinity()));
      S::store(sum + r, typename S::batch(A(0)));
    }
  }
};

// Returns the score that is subtracted from a row's scores. It is `max`, but 0 if that is -inf, because -inf
// - -inf would be NaN.
template <class A>
RAPT_INNER inline typename simd<A>::batch reference_of(typename simd<A>::batch max) {
  using S = simd<A>;
  using batch = typename S::batch;
  return S::select(S::equal(max, batch(-std::numeric_limits<A>::infinity())), batch(A(0)), max);
}

template <class A>
RAPT_INNER inline typename simd<A>::batch weight_of(const TileRows<A> &rows, std::size_t r,
                                                    typename simd<A>::batch distance) {
  return Weight<A>()(distance, simd<A>::load(rows.to_log2 + r), simd<A>::load(rows.cutoff + r));
}

// Holds the factors by which the values of two results are multiplied before they are added.
template <class A>
struct FoldFactors {
  alignas(64) A of_total[rapt::attention_tile_rows];
  alignas(64) A of_next[rapt::attention_tile_rows];
};

// Folds `next` into `total`, and sets `factors` to the factors for folding the values.
template <class A>
void fold(const TileRows<A> &rows, RowSums<A> &total, const RowSums<A> &next, FoldFactors<A> &factors) {
  using S = simd<A>;
  using batch = typename S::batch;
  for (std::size_t r = 0; r < rows.lanes; r += S::width) {
    const batch a_max = S::load(total.max + r), b_max = S::load(next.max + r);
    const batch max = S::max_number(b_max, a_max);
    const batch from = reference_of<A>(max);
    const batch a = weight_of(rows, r, a_max - from), b = weight_of(rows, r, b_max - from);
    S::store(total.max + r, max);
    S::store(total.sum + r, S::fma(S::load(next.sum + r), b, S::load(total.sum + r) * a));
    S::store(factors.of_total + r, a);
    S::store(factors.of_next + r, b);
  }
}

}  // namespace
