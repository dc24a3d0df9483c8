// Implements the scalar reference of argmax.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/types.hpp"

namespace {

template <class E>
std::size_t argmax(const E *x, std::size_t n) {
  std::size_t best = SIZE_MAX;
  for (std::size_t i = 0; i < n; ++i) {
    const rapt::Arithmetic<E> v = rapt::widened(x[i]);
    if (v != v) return i;
    if (best == SIZE_MAX || v > rapt::widened(x[best])) best = i;
  }
  return best;
}

}  // namespace
