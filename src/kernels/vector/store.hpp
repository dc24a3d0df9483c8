// The stores of a pass that may also store its vectors to memory.
#pragma once

#include <cstddef>

#include "contract/types.hpp"

namespace {

// Says whether and how a pass stores its vectors.
enum class Store {
  none,
  exact,   // only the elements
  padded,  // whole vectors, past the end of a row: a load that overlaps a masked store under way waits for
           // it. Rows of 8 columns take 6 ns so, and 23 with masked stores
};

// Stores to p + i; p may be null for Store::none.
template <Store to, class A>
[[gnu::always_inline]] inline void store_full(A *p, std::size_t i, typename simd<A>::batch v) {
  if constexpr (to != Store::none) simd<A>::store(p + i, v);
}
template <Store to, class A>
[[gnu::always_inline]] inline void store_end(A *p, std::size_t i, typename simd<A>::batch v, std::size_t k) {
  if constexpr (to == Store::exact) simd<A>::store_first(p + i, v, k);
  if constexpr (to == Store::padded) simd<A>::store(p + i, v);
}

}  // namespace
