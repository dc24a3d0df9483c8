// Computes how far an address is from alignment, and when non-temporal stores are worthwhile.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/types.hpp"

namespace {

// A vector of elements E covers this many bytes of memory.
template <class E>
inline constexpr std::size_t vector_bytes = simd<rapt::Arithmetic<E>>::width * sizeof(E);

template <class E>
[[gnu::always_inline]] inline bool is_aligned(const E *p) {
  return reinterpret_cast<std::uintptr_t>(p) % vector_bytes<E> == 0;
}

// Returns the number of elements from p to the next address at which a vector is aligned.
template <class E>
[[gnu::always_inline]] inline std::size_t elements_to_alignment(const E *p) {
  return (std::size_t{0} - reinterpret_cast<std::uintptr_t>(p)) % vector_bytes<E> / sizeof(E);
}

// An output with this many elements, 16 MiB, leaves the caches.
template <class Out>
inline constexpr std::size_t past_caches_from = (std::size_t{16} << 20) / sizeof(Out);

// Returns whether n elements of output are worth non-temporal stores. If the output leaves the caches anyway,
// ordinary stores cost a read of each line before its write: a third of the traffic. An output that is also
// the input is in the caches.
//
//   scale, ns per element                   | cached stores | non-temporal
//   64M elements                            | 0.58          | 0.38
//   4M elements, the output in L3 or nowhere | 0.27 or 0.37  | 0.28
//   within L2                               | 1             | 2 (relative)
template <class In, class Out>
[[gnu::always_inline]] inline bool goes_past_caches(const In *x, const Out *y, std::size_t n) {
  return simd<rapt::Arithmetic<Out>>::can_stream && static_cast<const void *>(x) != y &&
         n >= past_caches_from<Out>;
}

}  // namespace
