// Reads and writes a whole vector of a row, or its first elements. A loop's body is written once for both.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

struct WholeVector {
  template <class E>
  RAPT_INNER auto load(const E *p) const {
    return simd<rapt::Arithmetic<E>>::load(p);
  }
  template <class E, class V>
  RAPT_INNER void store(E *p, V v) const {
    simd<rapt::Arithmetic<E>>::store(p, v);
  }
  // Makes the lanes without an element +0.
  template <class V>
  RAPT_INNER V keep(V v) const {
    return v;
  }
};

// Has the first `count` elements of a vector.
struct FirstOfVector {
  std::size_t count;

  template <class E>
  RAPT_INNER auto load(const E *p) const {
    return simd<rapt::Arithmetic<E>>::load_first(p, count);
  }
  template <class E, class V>
  RAPT_INNER void store(E *p, V v) const {
    simd<rapt::Arithmetic<E>>::store_first(p, v, count);
  }
  template <class V>
  RAPT_INNER V keep(V v) const {
    return simd<typename V::value_type>::keep_first(v, count);
  }
};

// Calls f(part, i) for each vector of n elements, the first of which is element i.
template <class A, class F>
RAPT_INNER inline void each_vector(std::size_t n, const F &f) {
  constexpr std::size_t width = simd<A>::width;
  std::size_t i = 0;
  for (; n - i >= 4 * width; i += 4 * width) {
    unroll<4>([&](std::size_t r) RAPT_INNER { f(WholeVector{}, i + r * width); });
  }
  for (; n - i >= width; i += width) f(WholeVector{}, i);
  if (i < n) f(FirstOfVector{n - i}, i);
}

}  // namespace
