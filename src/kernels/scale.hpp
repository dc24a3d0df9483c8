// Multiplies each element of an array by a factor.
#pragma once

#include <cstddef>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class A>
struct Product {
  using batch = typename simd<A>::batch;
  static constexpr bool bound_by_memory = true;
  batch factor;
  RAPT_INNER batch operator()(batch v) const { return v * factor; }
};

template <class E>
[[gnu::flatten]] void scale(const E *x, rapt::Arithmetic<E> factor, E *y, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  map(x, y, n, Product<A>{typename simd<A>::batch(factor)});
}

}  // namespace
