// Loops over registers, unrolled by the language rather than by the optimiser.
//
// gcc 12 at -O2 leaves an array that a plain loop indexes in memory, with #pragma unroll too. A kernel that
// calls these is [[gnu::flatten]]: gcc may otherwise emit a body as a function and call it for each vector.
#pragma once

#include <cstddef>
#include <utility>

namespace {

template <std::size_t... index, class F>
[[gnu::always_inline]] inline void unroll_over(std::index_sequence<index...>, F &&f) {
  (f(std::integral_constant<std::size_t, index>{}), ...);
}

// f(0), f(1), … f(count - 1), each index a constant: an array indexed by it stays in registers.
template <std::size_t count, class F>
[[gnu::always_inline]] inline void unroll(F &&f) {
  unroll_over(std::make_index_sequence<count>{}, f);
}

template <std::size_t... index, class F>
[[gnu::always_inline]] inline void unroll_while_over(std::index_sequence<index...>, F &&f) {
  (void)(f(std::integral_constant<std::size_t, index>{}) && ...);
}

// As unroll, until f returns false.
template <std::size_t count, class F>
[[gnu::always_inline]] inline void unroll_while(F &&f) {
  unroll_while_over(std::make_index_sequence<count>{}, f);
}

}  // namespace
