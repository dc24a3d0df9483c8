// Converts between 16-bit elements and f32.
#pragma once

#include <cstddef>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class A>
struct Unchanged {
  using batch = typename simd<A>::batch;
  static constexpr bool bound_by_memory = true;
  RAPT_INNER batch operator()(batch v) const { return v; }
};

template <class E>
[[gnu::flatten]] void widen(const E *x, rapt::Arithmetic<E> *y, std::size_t n) {
  map(x, y, n, Unchanged<rapt::Arithmetic<E>>{});
}

template <class E>
[[gnu::flatten]] void narrow(const rapt::Arithmetic<E> *x, E *y, std::size_t n) {
  map(x, y, n, Unchanged<rapt::Arithmetic<E>>{});
}

}  // namespace
