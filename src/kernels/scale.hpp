#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/map.hpp"
#include "kernels/unroll.hpp"

namespace {

template <class T>
[[gnu::flatten]] void scale_by(const T *x, T factor, T *y, std::size_t n) {
  const typename simd<T>::batch f(factor);
  map(
      x, y, n, [&](auto &v) __attribute__((always_inline)) {
        unroll<std::extent_v<std::remove_reference_t<decltype(v)>>>([&](
            auto r) __attribute__((always_inline)) { v[r] = v[r] * f; });
      });
}

}  // namespace
