// Computes the gradient of softmax: for each row a dot product in dot()'s order, and a pass that writes dx.
#pragma once

#include <cstddef>

#include "kernels/dot.hpp"
#include "kernels/vector/fold.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Sets `sum` to the products of n elements, at most dot_stretch. An element with y = 0 counts as excluded,
// even if its dy is infinite or NaN.
template <class A>
RAPT_INNER inline void add_present(DotLanes<A> &sum, const A *y, const A *dy, std::size_t n) {
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr std::size_t registers = DotLanes<A>::registers, lanes = DotLanes<A>::lanes;
  const batch zero(A(0));
  sum.clear();
  std::size_t i = 0;
  for (; n - i >= lanes; i += lanes) {
    unroll<registers>([&](std::size_t j) RAPT_INNER {
      const batch p = S::load(y + i + j * S::width);
      sum.lane[j] = S::fma(p, S::zero_where(S::equal(p, zero), S::load(dy + i + j * S::width)), sum.lane[j]);
    });
  }
  if (i < n) {
    unroll<registers>([&](auto j) RAPT_INNER {
      constexpr std::size_t begin = j * S::width;
      const std::size_t k = n - i > begin ? n - i - begin : 0;
      const batch p = S::load_first(y + i + begin, k);
      sum.lane[j] =
          S::fma(p, S::zero_where(S::equal(p, zero), S::load_first(dy + i + begin, k)), sum.lane[j]);
    });
  }
}

template <class A>
[[gnu::flatten, gnu::noinline]] A dot_of_present_long(const A *y, const A *dy, std::size_t n) {
  return sum_of_stretches<A>(n, [=](std::size_t begin, std::size_t count, A *lane) {
    DotLanes<A> sum;
    add_present(sum, y + begin, dy + begin, count);
    sum.store(lane);
  });
}

template <class A>
RAPT_INNER inline A dot_of_present(const A *y, const A *dy, std::size_t n) {
  if (n > rapt::dot_stretch<A>) [[unlikely]]
    return dot_of_present_long(y, dy, n);
  DotLanes<A> sum;
  add_present(sum, y, dy, n);
  return sum.fold();
}

template <class A>
[[gnu::flatten]] void softmax_backward(const A *y, std::ptrdiff_t y_stride, const A *dy,
                                       std::ptrdiff_t dy_stride, A *dx, std::ptrdiff_t dx_stride,
                                       std::size_t rows, std::size_t cols, A scale) {
  using S = simd<A>;
  using batch = typename S::batch;
  const batch zero(A(0)), factor(scale);

  for (std::size_t r = 0; r < rows; ++r, y += y_stride, dy += dy_stride, dx += dx_stride) {
    const batch mean(dot_of_present(y, dy, cols));
    const auto gradient = [&](batch p, batch d) RAPT_INNER {
      return S::zero_where(S::equal(p, zero), (p * (d - mean)) * factor);
    };
    std::size_t i = 0;
    for (; cols - i >= S::width; i += S::width) {
      S::store(dx + i, gradient(S::load(y + i), S::load(dy + i)));
    }
    if (i < cols) {
      S::store_first(dx + i, gradient(S::load_first(y + i, cols - i), S::load_first(dy + i, cols - i)),
                     cols - i);
    }
  }
}

}  // namespace
