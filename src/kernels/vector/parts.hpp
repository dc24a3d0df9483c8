// Transposes or folds several vectors within 16-byte parts of registers. Every instruction-set level provides
// these shuffles, which work on each part of a and the same part of b:
//
//   zip_low(a, b), zip_high(a, b)      interleave the lower or the upper halves of the two parts
//   low_pairs(a, b), high_pairs(a, b)  join the lower or the upper halves of the two parts
//   evens(a, b), odds(a, b)            join the even or the odd lanes of the two parts
#pragma once

#include <cstddef>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
inline constexpr std::size_t part_width = 16 / sizeof(A);

// Swaps lane j of v[i] with lane i of v[j], within each part.
template <class S, class Batch>
RAPT_INNER inline void transpose_in_parts(Batch (&v)[4]) {
  const Batch a = S::zip_low(v[0], v[1]), b = S::zip_high(v[0], v[1]);
  const Batch c = S::zip_low(v[2], v[3]), d = S::zip_high(v[2], v[3]);
  v[0] = S::low_pairs(a, c);
  v[1] = S::high_pairs(a, c);
  v[2] = S::low_pairs(b, d);
  v[3] = S::high_pairs(b, d);
}
template <class S, class Batch>
RAPT_INNER inline void transpose_in_parts(Batch (&v)[2]) {
  const Batch low = S::zip_low(v[0], v[1]);
  v[1] = S::zip_high(v[0], v[1]);
  v[0] = low;
}

// Implements Simd's each_transposed. S::load_parts(row, i, at) joins one part each of row i, row i + lanes
// and so on. All other shuffles stay within parts. Shuffles are expensive on x86, where all of them use one
// port.
template <class S, std::size_t lanes, class Rows, class F>
RAPT_INNER inline void each_transposed_by_parts(const Rows &row, std::size_t at, F f) {
  unroll<S::width / lanes>([&](auto c) RAPT_INNER {
    typename S::batch part[lanes];
    unroll<lanes>([&](std::size_t i) RAPT_INNER { part[i] = S::load_parts(row, i, at + lanes * c); });
    transpose_in_parts<S>(part);
    unroll<lanes>([&](auto i)
                      RAPT_INNER { f(std::integral_constant<std::size_t, lanes * c + i>{}, part[i]); });
  });
}

// In each part, sets lane j to the fold by op of that part of the vector of(j). Calls of(j) only when it is
// needed, because AVX2 has too few registers for all of them.
template <class S, std::size_t lanes, class Of, class Op>
RAPT_INNER inline auto fold_in_parts(Of of, Op op) {
  if constexpr (lanes == 2) {
    const auto a = of(0), b = of(1);
    return op(S::zip_low(a, b), S::zip_high(a, b));
  } else {
    const auto pairs = [&](auto a, auto b) { return op(S::low_pairs(a, b), S::high_pairs(a, b)); };
    const auto a = pairs(of(0), of(1)), b = pairs(of(2), of(3));
    return op(S::evens(a, b), S::odds(a, b));
  }
}

}  // namespace
