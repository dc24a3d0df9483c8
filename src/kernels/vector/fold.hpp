// Lanes summed by halves: lane i takes lane i + half, first among registers, then within the last one.
#pragma once

#include <cstddef>

#include "kernels/vector/unroll.hpp"

namespace {

template <class Batch, std::size_t registers>
[[gnu::always_inline]] inline Batch fold_registers(const Batch (&lane)[registers]) {
  if constexpr (registers == 1) {
    return lane[0];
  } else {
    Batch half[registers / 2];
    unroll<registers / 2>([&](auto r) __attribute__((always_inline)) {
      half[r] = lane[r] + lane[r + registers / 2];
    });
    return fold_registers(half);
  }
}

template <class A, class Batch, std::size_t registers>
[[gnu::always_inline]] inline A fold_lanes(const Batch (&lane)[registers]) {
  return simd<A>::fold(fold_registers(lane));
}

}  // namespace
