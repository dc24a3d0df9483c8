// Computes the distance to the next aligned address, and decides when to use non-temporal stores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/types.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class E>
inline constexpr std::size_t vector_bytes = simd<rapt::Arithmetic<E>>::width * sizeof(E);

template <class E>
RAPT_INNER inline bool is_aligned(const E *p) {
  return reinterpret_cast<std::uintptr_t>(p) % vector_bytes<E> == 0;
}

// Returns the number of elements from p to the next address at which a vector is aligned.
template <class E>
RAPT_INNER inline std::size_t elements_to_alignment(const E *p) {
  return (std::size_t{0} - reinterpret_cast<std::uintptr_t>(p)) % vector_bytes<E> / sizeof(E);
}

// An output of at least this many elements (16 MiB) does not fit in the caches.
template <class Out>
inline constexpr std::size_t past_caches_from = (std::size_t{16} << 20) / sizeof(Out);

// Returns whether non-temporal stores are faster for an output of n elements. If the output does not fit in
// the caches, ordinary stores read each line before they write it, which is a third of the traffic. If y is
// x, the line is already in the caches.
//
//   scale, ns per element                   | ordinary stores | non-temporal
//   64M elements                            | 0.58            | 0.38
//   4M elements, output in L3               | 0.27            | 0.28
//   4M elements, output not in a cache      | 0.37            | 0.28
//   within L2, relative                     | 1               | 2
template <class In, class Out>
RAPT_INNER inline bool goes_past_caches(const In *x, const Out *y, std::size_t n) {
  return simd<rapt::Arithmetic<Out>>::can_stream && static_cast<const void *>(x) != y &&
         n >= past_caches_from<Out>;
}

}  // namespace
