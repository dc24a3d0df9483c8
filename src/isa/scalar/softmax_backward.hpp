// Implements the scalar reference of softmax_backward.
#pragma once

#include <cstddef>

#include "isa/scalar/dot.hpp"

namespace {

template <class A>
void softmax_backward(const A *y, std::ptrdiff_t y_stride, const A *dy, std::ptrdiff_t dy_stride, A *dx,
                      std::ptrdiff_t dx_stride, std::size_t rows, std::size_t cols, A scale) {
  for (std::size_t r = 0; r < rows; ++r, y += y_stride, dy += dy_stride, dx += dx_stride) {
    const A mean = sum_of_products<A>(
        cols, [=](std::size_t i) { return y[i]; }, [=](std::size_t i) { return y[i] != 0 ? dy[i] : A(0); });
    for (std::size_t i = 0; i < cols; ++i) {
      dx[i] = y[i] != 0 ? (y[i] * (dy[i] - mean)) * scale : A(0);
    }
  }
}

}  // namespace
