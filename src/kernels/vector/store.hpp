// Stores the vectors of a loop to memory, if a template argument asks for it.
#pragma once

#include <cstddef>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Says whether and how a loop stores its vectors.
enum class Store {
  none,
  exact,   // only the elements
  padded,  // whole vectors, past the end of a row. A load soon after an overlapping masked store would
           // wait: rows of 8 columns take 6 ns, and 23 with masked stores
};

// Stores to p + i; p may be null for Store::none.
template <Store to, class A>
RAPT_INNER inline void store_full(A *p, std::size_t i, typename simd<A>::batch v) {
  if constexpr (to != Store::none) simd<A>::store(p + i, v);
}
template <Store to, class A>
RAPT_INNER inline void store_end(A *p, std::size_t i, typename simd<A>::batch v, std::size_t k) {
  if constexpr (to == Store::exact) simd<A>::store_first(p + i, v, k);
  if constexpr (to == Store::padded) simd<A>::store(p + i, v);
}

}  // namespace
