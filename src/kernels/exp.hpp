// Computes exp of each element of an array.
#pragma once

#include <cstddef>

#include "kernels/vector/exp.hpp"
#include "kernels/vector/map.hpp"

namespace {

// This is a separate function, because setting up its constants would cost a short array time and registers.
template <class E>
[[gnu::flatten, gnu::noinline]] void exp_long(const E *x, E *y, std::size_t n) {
  map(x, y, n, Exp<rapt::Arithmetic<E>>());
}

template <class E>
[[gnu::flatten]] void exp(const E *x, E *y, std::size_t n) {
  using S = simd<rapt::Arithmetic<E>>;
  constexpr std::size_t width = S::width;
  if (n > 2 * width) return exp_long(x, y, n);
  if (n == 0) return;  // x and y may be invalid, and an emulator may access memory even under an empty mask
  const Exp<rapt::Arithmetic<E>> exp_of;
  if (n == width) {
    S::store(y, exp_of(S::load(x)));
  } else if (n < width) {
    S::store_first(y, exp_of(S::load_first(x, n)), n);
  } else {
    typename S::batch v[2] = {S::load(x), S::load_first(x + width, n - width)};
    exp_of(v);
    S::store(y, v[0]);
    S::store_first(y + width, v[1], n - width);
  }
}

}  // namespace
