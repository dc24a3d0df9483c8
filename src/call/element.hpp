// The element types of a call, which it names at run time.
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

// f(Element<E>) for the elements that `type` names, where they are computed in A.
template <class A, class F>
[[gnu::always_inline]] inline decltype(auto) with_element(rapt_type type, F f) {
  if constexpr (std::is_same_v<A, double>) {
    return f(Element<double>{});
  } else {
    if (type == RAPT_F16) return f(Element<F16>{});
    if (type == RAPT_BF16) return f(Element<BF16>{});
    return f(Element<float>{});
  }
}

constexpr std::size_t size_of(rapt_type type) {
  return type == RAPT_F64 ? 8 : type == RAPT_F16 || type == RAPT_BF16 ? 2 : type == RAPT_I8 ? 1 : 4;
}

}  // namespace
}  // namespace rapt
