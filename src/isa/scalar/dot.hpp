// Implements the scalar reference of dot, dot_rows and scale. The code spells out the order of every
// operation.
#pragma once

#include <cstddef>

#include "contract/fused.hpp"
#include "contract/reductions.hpp"
#include "contract/types.hpp"

namespace {

// Sums the lanes by halves: lane i + half is added to lane i, until only lane 0 is left.
template <class A, std::size_t lanes>
A fold(A (&lane)[lanes]) {
  for (std::size_t half = lanes / 2; half > 0; half /= 2) {
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  }
  return lane[0];
}

// Returns the sum of a(i) * b(i) for i < n. A missing element counts as 0 * 0.
template <class A, class F, class G>
A sum_of_products(std::size_t n, F a, G b) {
  constexpr std::size_t lanes = rapt::dot_lanes<A>, stretch = rapt::dot_stretch<A>;
  A total[lanes] = {};
  for (std::size_t begin = 0; begin < n; begin += stretch) {
    const std::size_t end = n - begin < stretch ? n : begin + stretch;
    A lane[lanes] = {};
    for (std::size_t i = begin; i < end; i += lanes) {
      for (std::size_t j = 0; j < lanes; ++j) {
        const bool exists = i + j < end;
        lane[j] = fused(exists ? a(i + j) : A(0), exists ? b(i + j) : A(0), lane[j]);
      }
    }
    for (std::size_t j = 0; j < lanes; ++j) total[j] = begin == 0 ? lane[j] : total[j] + lane[j];
  }
  return fold(total);
}

template <class E>
requires(sizeof(E) > 1) rapt::Arithmetic<E> dot(const E *a, const E *b, std::size_t n) {
  return sum_of_products<rapt::Arithmetic<E>>(
      n, [=](std::size_t i) { return rapt::widened(a[i]); },
      [=](std::size_t i) { return rapt::widened(b[i]); });
}

template <class E>
requires(sizeof(E) > 1) void dot_rows(const E *query, const E *rows, std::ptrdiff_t row_stride,
                                      std::size_t row_count, std::size_t dim, rapt::Arithmetic<E> scale,
                                      rapt::Arithmetic<E> *out) {
  for (std::size_t r = 0; r < row_count; ++r) {
    out[r] = scale * dot(query, rows + static_cast<std::ptrdiff_t>(r) * row_stride, dim);
  }
}

// Sums bytes exactly. dot_rows() rounds the exact sum to f32, and then the product of the rounded sum and the
// scale.
template <class E>
requires(sizeof(E) == 1) std::int64_t dot(const E *a, const std::int8_t *b, std::size_t n) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += int{a[i]} * int{b[i]};
  return sum;
}
template <class E>
requires(sizeof(E) == 1) void dot_rows(const E *query, const std::int8_t *rows, std::ptrdiff_t row_stride,
                                       std::size_t row_count, std::size_t dim, float scale, float *out) {
  for (std::size_t r = 0; r < row_count; ++r) {
    const std::int64_t sum = dot(query, rows + static_cast<std::ptrdiff_t>(r) * row_stride, dim);
    out[r] = scale * static_cast<float>(sum);
  }
}

template <class E>
void scale(const E *x, rapt::Arithmetic<E> factor, E *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = rapt::narrowed<E>(rapt::widened(x[i]) * factor);
}

template <class E>
void widen(const E *x, rapt::Arithmetic<E> *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = rapt::widened(x[i]);
}
template <class E>
void narrow(const rapt::Arithmetic<E> *x, E *y, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) y[i] = rapt::narrowed<E>(x[i]);
}

}  // namespace
