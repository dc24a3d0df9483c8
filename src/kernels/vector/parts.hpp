// Transposition and joint folds within parts of 16 bytes of registers. Every level has the shuffles for
// these:
//
// zip_low(a, b), zip_high(a, b): the lanes of the lower or upper half of a's part and of b's, in turns.
// low_pairs(a, b), high_pairs(a, b): the lower or upper half of a's part, then of b's.
// evens(a, b), odds(a, b): every other lane of a's part, then of b's.
#pragma once

#include <cstddef>

#include "kernels/vector/unroll.hpp"

namespace {

template <class A>
inline constexpr std::size_t part_width = 16 / sizeof(A);

// Lane j of v[i] and lane i of v[j] change places, within each part.
template <class S, class Batch>
[[gnu::always_inline]] inline void transpose_in_parts(Batch (&v)[4]) {
  const Batch a = S::zip_low(v[0], v[1]), b = S::zip_high(v[0], v[1]);
  const Batch c = S::zip_low(v[2], v[3]), d = S::zip_high(v[2], v[3]);
  v[0] = S::low_pairs(a, c);
  v[1] = S::high_pairs(a, c);
  v[2] = S::low_pairs(b, d);
  v[3] = S::high_pairs(b, d);
}
template <class S, class Batch>
[[gnu::always_inline]] inline void transpose_in_parts(Batch (&v)[2]) {
  const Batch low = S::zip_low(v[0], v[1]);
  v[1] = S::zip_high(v[0], v[1]);
  v[0] = low;
}

// Implements each_transposed of Simd. S::load_parts(row, i, at) joins a part of row i and every `lanes`-th
// row. All other shuffles are within parts. On x86 every shuffle uses the same port.
template <class S, std::size_t lanes, class Rows, class F>
[[gnu::always_inline]] inline void each_transposed_by_parts(const Rows &row, std::size_t at, F f) {
  unroll<S::width / lanes>([&](auto c) __attribute__((always_inline)) {
    typename S::batch part[lanes];
    unroll<lanes>([&](auto i)
                      __attribute__((always_inline)) { part[i] = S::load_parts(row, i, at + lanes * c); });
    transpose_in_parts<S>(part);
    unroll<lanes>([&](auto i) __attribute__((always_inline)) {
      f(std::integral_constant<std::size_t, lanes * c + i>{}, part[i]);
    });
  });
}

// Lane j of a part becomes the fold, by op, of that part of of(j). of(j) is called only when it is needed:
// AVX2 has no registers for all of them at once.
template <class S, std::size_t lanes, class Of, class Op>
[[gnu::always_inline]] inline auto fold_in_parts(Of of, Op op) {
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
