// Sums lanes by halves: adds lane i + half to lane i, first across registers, then within the last register.
#pragma once

#include <cstddef>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

template <class Batch, std::size_t registers>
RAPT_INNER inline Batch fold_registers(const Batch (&lane)[registers]) {
  if constexpr (registers == 1) {
    return lane[0];
  } else {
    Batch half[registers / 2];
    unroll<registers / 2>([&](std::size_t r) RAPT_INNER { half[r] = lane[r] + lane[r + registers / 2]; });
    return fold_registers(half);
  }
}

// Returns what fold_registers would return if the registers after the first `live` held +0. Only the sign of
// a zero result may differ.
template <std::size_t registers, class Batch, std::size_t live>
RAPT_INNER inline Batch fold_live(const Batch (&lane)[live]) {
  if constexpr (live == 1) {
    return lane[0];
  } else {
    constexpr std::size_t half = registers / 2, left = live < half ? live : half;
    Batch sum[left];
    unroll<left>([&](auto r) RAPT_INNER {
      if constexpr (r + half < live) {
        sum[r] = lane[r] + lane[r + half];
      } else {
        sum[r] = lane[r];
      }
    });
    return fold_live<half>(sum);
  }
}

template <class A, class Batch, std::size_t registers>
RAPT_INNER inline A fold_lanes(const Batch (&lane)[registers]) {
  return simd<A>::fold(fold_registers(lane));
}

}  // namespace
