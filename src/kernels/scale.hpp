#pragma once

#include <cstddef>

#include "kernels/unroll.hpp"

namespace {

template <class T>
[[gnu::flatten]] void scale_by(const T *x, T factor, T *y, std::size_t n) {
  using S = simd<T>;
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  const typename S::batch f(factor);
  std::size_t i = 0;
  for (; n - i >= block; i += block) {
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      S::store(y + i + r * S::width, S::load(x + i + r * S::width) * f);
    });
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, S::load(x + i) * f);
  if (i < n) S::store_first(y + i, S::load_first(x + i, n - i) * f, n - i);
}

}  // namespace
