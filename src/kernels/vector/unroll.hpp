// Unrolls loops over registers using templates instead of the optimiser.
//
// gcc 12 at -O2 keeps an array in memory if a plain loop indexes it, even with #pragma unroll. A kernel that
// calls these templates must be [[gnu::flatten]]. Otherwise gcc may turn a loop's body into a function and
// call it for each vector.
//
// A body takes its index as std::size_t. It takes `auto` only where it needs a constant, as for a template's argument:
// it is then compiled once for each index, which costs the compiler twice the time. An array that bodies within
// bodies use should be their function's parameter: gcc 12 leaves captured ones in memory.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/vector/inner.hpp"

namespace {

template <std::size_t... index, class F>
RAPT_INNER inline void unroll_over(std::index_sequence<index...>, F &&f) {
  (f(std::integral_constant<std::size_t, index>{}), ...);
}

// Calls f(0), f(1), … f(count - 1). Each index is a constant, so that an array indexed with it stays in
// registers.
template <std::size_t count, class F>
RAPT_INNER inline void unroll(F &&f) {
  unroll_over(std::make_index_sequence<count>{}, f);
}

// Calls f(i, j) for each i below `rows` and each j below `columns`, row by row.
template <std::size_t rows, std::size_t columns, class F>
RAPT_INNER inline void unroll_pairs(F &&f) {
  unroll<rows>([&](auto i) RAPT_INNER { unroll<columns>([&](auto j) RAPT_INNER { f(i, j); }); });
}

// Calls f(i, k) for each i in [begin, end), four at a time. The constant k is the place of i among the four;
// it is 0 for the last, incomplete group.
template <class F>
RAPT_INNER inline void by_fours(std::size_t begin, std::size_t end, F &&f) {
  for (const std::size_t fours_end = end - (end - begin) % 4; begin < fours_end; begin += 4) {
    unroll<4>([&](auto k) RAPT_INNER { f(begin + k, k); });
  }
  for (; begin < end; ++begin) f(begin, std::integral_constant<std::size_t, 0>{});
}

template <std::size_t... index, class F>
RAPT_INNER inline void unroll_while_over(std::index_sequence<index...>, F &&f) {
  (void)(f(std::integral_constant<std::size_t, index>{}) && ...);
}

// Calls f(0), f(1), … f(count - 1) like unroll(), but stops when f returns false.
template <std::size_t count, class F>
RAPT_INNER inline void unroll_while(F &&f) {
  unroll_while_over(std::make_index_sequence<count>{}, f);
}

}  // namespace
