// Finds the C++ type of a call's elements, which is known only at run time.
#pragma once

#include <type_traits>

#include "contract/types.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

template <class E>
struct Element {
  using type = E;
};

// Calls f(Element<E>) for the type E that `type` names. A must be the arithmetic type of E. RAPT_TYPE_DEFAULT is
// resolved before a call.
template <class A, class F>
[[gnu::always_inline]] inline decltype(auto) with_element(rapt_type type, F f) {
  if constexpr (std::is_same_v<A, double>) {
    return f(Element<double>{});
  } else {
    switch (type) {
      case RAPT_F16:
        return f(Element<F16>{});
      case RAPT_BF16:
        return f(Element<BF16>{});
      case RAPT_F32:
        return f(Element<float>{});
      default:
        break;
    }
    __builtin_unreachable();
  }
}

// Returns the bytes of an element, or of two elements of 4 bits. What lies in blocks is counted in bytes.
constexpr std::size_t size_of(rapt_type type) {
  switch (type) {
    case RAPT_F16:
    case RAPT_BF16:
      return 2;
    case RAPT_F32:
      return 4;
    case RAPT_F64:
      return 8;
    default:
      return 1;
  }
}

// Returns the bytes of the arithmetic type of a call with such elements.
constexpr std::size_t number_size(rapt_type type) { return size_of(type == RAPT_F64 ? RAPT_F64 : RAPT_F32); }

}  // namespace
}  // namespace rapt
