// Widens contiguous elements of 16 bits to f32.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// Sets to[i] to the value of from[i]. It stores whole vectors, which may reach past the last element.
template <class E>
RAPT_INNER inline void widen(const E *from, std::size_t count, rapt::Arithmetic<E> *to) {
  using S = simd<rapt::Arithmetic<E>>;
  std::size_t i = 0;
  for (; count - i >= S::width; i += S::width) S::store(to + i, S::load(from + i));
  if (i < count) S::store(to + i, S::load_first(from + i, count - i));
}

}  // namespace
