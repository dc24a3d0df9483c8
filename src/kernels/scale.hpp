// Each element times a factor.
#pragma once

#include <cstddef>

#include "kernels/vector/map.hpp"

namespace {

template <class E>
[[gnu::flatten]] void scale(const E *x, rapt::Arithmetic<E> factor, E *y, std::size_t n) {
  using batch = typename simd<rapt::Arithmetic<E>>::batch;
  const batch f(factor);
  map(
      x, y, n, [&](batch v) __attribute__((always_inline)) { return v * f; });
}

}  // namespace
