// Rows of elements to and from a tile's matrices, in which rows are lanes.
#pragma once

#include <cstddef>

#include "kernels/vector/unroll.hpp"

namespace {

// v[i] becomes, for each of a vector of rows, its element at + i; count elements exist.
template <class T>
[[gnu::always_inline]] inline void load_transposed(typename simd<T>::batch (&v)[simd<T>::width],
                                                   const T *const *row, std::size_t at, std::size_t count) {
  using S = simd<T>;
  if (count >= S::width) return S::load_transposed(v, row, at);
  unroll<S::width>([&](auto r) __attribute__((always_inline)) { v[r] = S::load_first(row[r] + at, count); });
  S::transpose(v);
}

// to[d][i] = row i [d] for a vector of rows; `pitch` elements lie between dimensions.
template <class T>
[[gnu::always_inline]] inline void transpose_rows(const T *const *row, std::size_t dim, T *to,
                                                  std::size_t pitch) {
  using S = simd<T>;
  std::size_t d = 0;
  typename S::batch v[S::width];
  for (; dim - d >= S::width; d += S::width) {
    S::load_transposed(v, row, d);
    unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(to + (d + i) * pitch, v[i]); });
  }
  if (d < dim) {
    load_transposed<T>(v, row, d, dim - d);
    unroll_while<S::width>([&](auto i) __attribute__((always_inline)) {
      if (i < dim - d) S::store(to + (d + i) * pitch, v[i]);
      return i < dim - d;
    });
  }
}

// row[i][d] = value(d)[i] for the first `rows` lanes and `dim` dimensions. value may be asked for one again.
template <class T, class Value>
[[gnu::always_inline]] inline void store_transposed(T *const *row, std::size_t rows, std::size_t dim,
                                                    Value value) {
  using S = simd<T>;
  typename S::batch v[S::width];
  std::size_t d = 0;
  for (; rows == S::width && dim - d >= S::width; d += S::width) {
    unroll<S::width>([&](auto i) __attribute__((always_inline)) { v[i] = value(d + i); });
    S::transpose(v);
    unroll<S::width>([&](auto i) __attribute__((always_inline)) { S::store(row[i] + d, v[i]); });
  }
  for (; d < dim; d += S::width) {
    const std::size_t dims = dim - d < S::width ? dim - d : S::width;
    unroll<S::width>([&](auto i) __attribute__((always_inline)) { v[i] = value(i < dims ? d + i : d); });
    S::transpose(v);
    unroll_while<S::width>([&](auto i) __attribute__((always_inline)) {
      if (i < rows) S::store_first(row[i] + d, v[i], dims);
      return i < rows;
    });
  }
}

}  // namespace
