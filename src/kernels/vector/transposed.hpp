// Transposes rows of elements into matrices with rows in the vector lanes, and back.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Sets lane r of v[i] to element at + i of row r, for a vector of rows. Only `count` of these elements exist.
template <class A, class E>
RAPT_INNER inline void load_transposed(typename simd<A>::batch (&v)[simd<A>::width], const E *const *row,
                                       std::size_t at, std::size_t count) {
  using S = simd<A>;
  if (count >= S::width) {
    return S::each_transposed(row, at, [&](auto i, typename S::batch column) RAPT_INNER { v[i] = column; });
  }
  unroll<S::width>([&](std::size_t r) RAPT_INNER { v[r] = S::load_first(row[r] + at, count); });
  S::transpose(v);
}

// Sets to[d * pitch + i] to row[i][d], for a vector of rows.
template <class A, class E>
RAPT_INNER inline void transpose_rows(const E *const *row, std::size_t dim, A *to, std::size_t pitch) {
  using S = simd<A>;
  std::size_t d = 0;
  for (; dim - d >= S::width; d += S::width) {
    S::each_transposed(
        row, d, [&](auto i, typename S::batch column) RAPT_INNER { S::store(to + (d + i) * pitch, column); });
  }
  if (d < dim) {
    typename S::batch v[S::width];
    load_transposed<A>(v, row, d, dim - d);
    alignas(64) A column[S::width][S::width];
    unroll<S::width>([&](std::size_t i) RAPT_INNER { S::store(column[i], v[i]); });
    for (std::size_t i = 0; i < dim - d; ++i) S::store(to + (d + i) * pitch, S::load(column[i]));
  }
}

// Sets row[i][d] to lane i of value(d), for the first `rows` lanes and `dim` dimensions. It may call value(d)
// twice for the same d.
template <class E, class Value>
RAPT_INNER inline void store_transposed(E *const *row, std::size_t rows, std::size_t dim, Value value) {
  using S = simd<rapt::Arithmetic<E>>;
  typename S::batch v[S::width];
  std::size_t d = 0;
  for (; rows == S::width && dim - d >= S::width; d += S::width) {
    unroll<S::width>([&](std::size_t i) RAPT_INNER { v[i] = value(d + i); });
    S::transpose(v);
    unroll<S::width>([&](std::size_t i) RAPT_INNER { S::store(row[i] + d, v[i]); });
  }
  for (; d < dim; d += S::width) {
    const std::size_t dims = dim - d < S::width ? dim - d : S::width;
    unroll<S::width>([&](std::size_t i) RAPT_INNER { v[i] = value(i < dims ? d + i : d); });
    S::transpose(v);
    unroll_while<S::width>([&](std::size_t i) RAPT_INNER {
      if (i < rows) S::store_first(row[i] + d, v[i], dims);
      return i < rows;
    });
  }
}

}  // namespace
