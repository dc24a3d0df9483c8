// Makes the numbers of a linear layer's problem. They depend only on the problem.
#pragma once

#include <type_traits>
#include <vector>

#include "support/elements.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Holds all arrays without gaps. Every number is exact in the type of its array.
template <class A>
struct LinearNumbers {
  std::vector<A> x;    // [rows][inputs]
  std::vector<A> w;    // [outputs][inputs]
  std::vector<A> add;  // [rows][outputs], or empty
  std::vector<A> output_scales, bias, row_scales;
};

// The result is valid until the next call with the same W, the type of the weights. Defined for all float
// types.
template <class W>
const LinearNumbers<Number<W>> &make_linear(const Problem &problem);

template <class X_, class Y_>
struct LinearTypes {
  using X = X_;
  using Y = Y_;
};

// Calls f(LinearTypes<X, Y>()) for the types of x and y. Returns false if the types are another kernel's.
template <class W, class F>
bool with_linear_types(ElementTypes types, F &&f) {
  const auto run_if = [&]<class X, class Y>(ElementTypes these, LinearTypes<X, Y> made) {
    if (types == these) f(made);
    return types == these;
  };
  if (run_if(ElementTypes::of_kernel, LinearTypes<W, W>())) return true;
  if constexpr (std::is_same_v<W, float>) {
    return run_if(ElementTypes::f16_f32_bf16, LinearTypes<F16, BF16>()) ||
           run_if(ElementTypes::bf16_f32_f16, LinearTypes<BF16, F16>());
  } else if constexpr (std::is_same_v<W, F16>) {
    return run_if(ElementTypes::f32_f16_f32, LinearTypes<float, float>()) ||
           run_if(ElementTypes::f16_f16_f32, LinearTypes<F16, float>()) ||
           run_if(ElementTypes::bf16_f16_bf16, LinearTypes<BF16, BF16>());
  } else if constexpr (std::is_same_v<W, BF16>) {
    return run_if(ElementTypes::f32_bf16_f16, LinearTypes<float, F16>()) ||
           run_if(ElementTypes::f16_bf16_f16, LinearTypes<F16, F16>()) ||
           run_if(ElementTypes::bf16_bf16_f32, LinearTypes<BF16, float>()) ||
           run_if(ElementTypes::bf16_bf16_f16, LinearTypes<BF16, F16>());
  }
  return false;
}

}  // namespace rapt::test
