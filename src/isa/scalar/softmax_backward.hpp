// The reference of softmax_backward.
#pragma once

#include <cmath>
#include <cstddef>

#include "isa/scalar/dot.hpp"

namespace {

template <class T>
void softmax_backward(const T *y, std::ptrdiff_t y_stride, const T *dy, std::ptrdiff_t dy_stride, T *dx,
                      std::ptrdiff_t dx_stride, std::size_t rows, std::size_t cols, T scale) {
  constexpr std::size_t lanes = rapt::Contract<T>::dot_lanes;
  for (std::size_t r = 0; r < rows; ++r, y += y_stride, dy += dy_stride, dx += dx_stride) {
    T lane[lanes] = {};
    for (std::size_t i = 0; i < cols; i += lanes) {
      for (std::size_t j = 0; j < lanes; ++j) {
        const bool counts = i + j < cols && y[i + j] != 0;
        lane[j] = std::fma(counts ? y[i + j] : T(0), counts ? dy[i + j] : T(0), lane[j]);
      }
    }
    const T mean = fold(lane);
    for (std::size_t i = 0; i < cols; ++i) {
      dx[i] = y[i] != 0 ? (y[i] * (dy[i] - mean)) * scale : T(0);
    }
  }
}

}  // namespace
