// Finds the C++ type of a call's elements among all floating-point types.
#pragma once

#include "call/element.hpp"

namespace rapt {
namespace {

// Calls f(Element<E>) for the type E that `type` names: f64 or those of with_element().
template <class F>
decltype(auto) with_any_element(rapt_type type, F f) {
  return type == RAPT_F64 ? with_element<double>(type, f) : with_element<float>(type, f);
}

}  // namespace
}  // namespace rapt
