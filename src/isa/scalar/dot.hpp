// The reference of dot, dot_rows and scale: the order of every operation, and nothing else.
#pragma once

#include <cmath>
#include <cstddef>

#include "contract/exp.hpp"

namespace {

// Sum the lanes by halves: lane i takes lane i + half, down to lane 0.
template <class T, std::size_t lanes>
T fold(T (&lane)[lanes]) {
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

template <class T>
T dot(const T *a, const T *b, std::size_t n) {
  constexpr std::size_t lanes = rapt::Contract<T>::dot_lanes;
  T lane[lanes] = {};
  for (std::size_t i = 0; i < n; i += lanes) {
    for (std::size_t j = 0; j < lanes; ++j) {
      const bool exists = i + j < n;  // a missing element counts as 0 * 0
      lane[j] = std::fma(exists ? a[i + j] : T(0), exists ? b[i + j] : T(0), lane[j]);
    }
  }
  return fold(lane);
}

template <class T>
void dot_rows(const T *query, const T *rows, std::ptrdiff_t row_stride, std::size_t row_count,
              std::size_t dim, T scale, T *out) {
  for (std::size_t r = 0; r < row_count; ++r) {
    out[r] = scale * dot(query, rows + static_cast<std::ptrdiff_t>(r) * row_stride, dim);
  }
}

template <class T>
void scale(const T *x, T factor, T *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = x[i] * factor;
}

}  // namespace
