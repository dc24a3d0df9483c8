// The reference of softmax_backward.
#pragma once

#include <cstddef>

#include "contract/fused.hpp"
#include "isa/scalar/dot.hpp"

namespace {

template <class A>
void softmax_backward(const A *y, std::ptrdiff_t y_stride, const A *dy, std::ptrdiff_t dy_stride, A *dx,
                      std::ptrdiff_t dx_stride, std::size_t rows, std::size_t cols, A scale) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>;
  for (std::size_t r = 0; r < rows; ++r, y += y_stride, dy += dy_stride, dx += dx_stride) {
    A lane[lanes] = {};
    for (std::size_t i = 0; i < cols; i += lanes) {
      for (std::size_t j = 0; j < lanes; ++j) {
        const bool counts = i + j < cols && y[i + j] != 0;
        lane[j] = fused(counts ? y[i + j] : A(0), counts ? dy[i + j] : A(0), lane[j]);
      }
    }
    const A mean = fold(lane);
    for (std::size_t i = 0; i < cols; ++i) {
      dx[i] = y[i] != 0 ? (y[i] * (dy[i] - mean)) * scale : A(0);
    }
  }
}

}  // namespace
