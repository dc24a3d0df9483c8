// Sets all elements of an array to one value.
#pragma once

#include <cstddef>

#include "contract/types.hpp"

namespace {

template <class E>
[[gnu::noinline, gnu::flatten]] void fill(E *y, std::size_t n, rapt::Arithmetic<E> value) {
  using S = simd<rapt::Arithmetic<E>>;
  const typename S::batch v(value);
  std::size_t i = 0;
  for (; n - i >= S::width; i += S::width) S::store(y + i, v);
  if (i < n) S::store_first(y + i, v, n - i);
}

}  // namespace
