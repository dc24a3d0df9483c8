// The types of elements that functions of rapt.h have in their names: rapt_dot_f32, rapt_dot_bf16 and so on.
#pragma once

#include <type_traits>

#include "contract/types.hpp"
#include "rapt/rapt.h"

// RAPT_FLOATS(FUNCTION, name) is FUNCTION(name, type, E) for each type that holds what it computes in, and
// RAPT_ALL_FLOATS for each type. `type` is the suffix of the public function, E the kernels' type of elements.
#define RAPT_FLOATS(FUNCTION, name) \
  FUNCTION(name, f32, float)        \
  FUNCTION(name, f64, double)
#define RAPT_HALVES(FUNCTION, name) \
  FUNCTION(name, f16, F16)          \
  FUNCTION(name, bf16, BF16)
#define RAPT_ALL_FLOATS(FUNCTION, name) \
  RAPT_FLOATS(FUNCTION, name)           \
  RAPT_HALVES(FUNCTION, name)

namespace rapt {
namespace {

// The type of elements in rapt.h. Both 16-bit types are uint16_t there, but kernels have a type for each.
template <class E>
using Public = std::conditional_t<sizeof(E) == sizeof(rapt_f16), rapt_f16, E>;
static_assert(std::is_same_v<rapt_f16, rapt_bf16>);

template <class E>
const E *elements(const Public<E> *p) {
  static_assert(sizeof(E) == sizeof(Public<E>) && alignof(E) == alignof(Public<E>));
  return reinterpret_cast<const E *>(p);
}
template <class E>
E *elements(Public<E> *p) {
  return const_cast<E *>(elements<E>(static_cast<const Public<E> *>(p)));
}

}  // namespace
}  // namespace rapt
