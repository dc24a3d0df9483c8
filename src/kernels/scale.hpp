#pragma once

#include <cstddef>

#include "kernels/vector/map.hpp"

namespace {

template <class T>
[[gnu::flatten]] void scale(const T *x, T factor, T *y, std::size_t n) {
  using batch = typename simd<T>::batch;
  const batch f(factor);
  map(
      x, y, n, [&](batch v) __attribute__((always_inline)) { return v * f; });
}

}  // namespace
