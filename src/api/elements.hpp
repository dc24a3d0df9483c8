// Casts pointers to 16-bit elements. Both public types of such elements are uint16_t, but kernels have a type
// for each.
#pragma once

#include "contract/types.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

template <class E>
const E *elements(const std::uint16_t *p) {
  static_assert(sizeof(E) == sizeof(std::uint16_t) && alignof(E) == alignof(std::uint16_t));
  return reinterpret_cast<const E *>(p);
}
template <class E>
E *elements(std::uint16_t *p) {
  return const_cast<E *>(elements<E>(static_cast<const std::uint16_t *>(p)));
}

}  // namespace
}  // namespace rapt
