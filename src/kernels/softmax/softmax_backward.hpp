// softmax_backward: a dot product in dot's order, then one pass.
#pragma once

#include <cstddef>

#include "kernels/dot.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
[[gnu::flatten]] void softmax_backward(const A *y, std::ptrdiff_t y_stride, const A *dy,
                                       std::ptrdiff_t dy_stride, A *dx, std::ptrdiff_t dx_stride,
                                       std::size_t rows, std::size_t cols, A scale) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t registers = DotLanes<A>::registers;
  constexpr std::size_t lanes = DotLanes<A>::lanes;
  const batch zero(A(0)), factor(scale);

  for (std::size_t r = 0; r < rows; ++r, y += y_stride, dy += dy_stride, dx += dx_stride) {
    // An element with y = 0 is excluded, whatever its dy is.
    batch lane[registers];
    unroll<registers>([&](auto j) __attribute__((always_inline)) { lane[j] = zero; });
    std::size_t i = 0;
    for (; cols - i >= lanes; i += lanes) {
      unroll<registers>([&](auto j) __attribute__((always_inline)) {
        const batch p = S::load(y + i + j * S::width);
        lane[j] = S::fma(p, S::zero_where(S::equal(p, zero), S::load(dy + i + j * S::width)), lane[j]);
      });
    }
    if (i < cols) {
      unroll<registers>([&](auto j) __attribute__((always_inline)) {
        constexpr std::size_t begin = j * S::width;
        const std::size_t k = cols - i > begin ? cols - i - begin : 0;
        const batch p = S::load_first(y + i + begin, k);
        lane[j] = S::fma(p, S::zero_where(S::equal(p, zero), S::load_first(dy + i + begin, k)), lane[j]);
      });
    }
    const batch mean(fold_lanes<A>(lane));

    const auto gradient = [&](batch p, batch d) __attribute__((always_inline)) {
      return S::zero_where(S::equal(p, zero), (p * (d - mean)) * factor);
    };
    for (i = 0; cols - i >= S::width; i += S::width) {
      S::store(dx + i, gradient(S::load(y + i), S::load(dy + i)));
    }
    if (i < cols) {
      S::store_first(dx + i, gradient(S::load_first(y + i, cols - i), S::load_first(dy + i, cols - i)),
                     cols - i);
    }
  }
}

}  // namespace
