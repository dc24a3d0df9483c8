// Loops over registers, unrolled by the language instead of hoping for the optimiser.
#pragma once

#include <cstddef>
#include <utility>

namespace {

// Kernels that call this are [[gnu::flatten]]: at -O2 gcc may otherwise leave a body as a function, a call a
// vector.
//
// f(0), f(1), … f(count - 1), each index a constant: an array indexed by it stays in registers. (With a plain
// loop and #pragma unroll, gcc 12 leaves such arrays in memory at -O2.)
template <std::size_t... index, class F>
[[gnu::always_inline]] inline void unroll_over(std::index_sequence<index...>, F &&f) {
  (f(std::integral_constant<std::size_t, index>{}), ...);
}

template <std::size_t count, class F>
[[gnu::always_inline]] inline void unroll(F &&f) {
  unroll_over(std::make_index_sequence<count>{}, f);
}

// The same until f returns false.
template <std::size_t... index, class F>
[[gnu::always_inline]] inline void unroll_while_over(std::index_sequence<index...>, F &&f) {
  (void)(f(std::integral_constant<std::size_t, index>{}) && ...);
}

template <std::size_t count, class F>
[[gnu::always_inline]] inline void unroll_while(F &&f) {
  unroll_while_over(std::make_index_sequence<count>{}, f);
}

}  // namespace
