// Implements the scalar reference of silu, gelu and gelu_tanh.
#pragma once

#include <cmath>
#include <cstddef>

#include "contract/activation.hpp"
#include "contract/fused.hpp"
#include "contract/types.hpp"
#include "isa/scalar/exp.hpp"

namespace {

template <class A>
A sigmoid(const Reduction<A> &natural, A v) {
  const A e = exp_one(natural, -std::fabs(v));
  return (v < 0 ? e : A(1)) / (1 + e);
}

template <class A>
A gelu_one(const Reduction<A> &natural, A x) {
  using C = rapt::ActivationContract<A>;
  const A magnitude = std::fabs(x), a = magnitude > C::tail_end ? C::tail_end : magnitude;
  const A h = a * a, l = fused(a, a, -h);
  A e = exp_one(natural, h * A(-0.5));
  e = fused(e, l * A(-0.5), e);
  const A r = 1 / (a + 4), u = fused(A(-8), r, A(1));
  A p = C::p[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = fused(p, u, C::p[i]);
  const A q = e * (r * p);
  return x * (x < 0 ? q : 1 - q);
}

// Sets y[i] to the value of f for each widened element.
template <class E, class F>
void map(const E *x, E *y, std::size_t n, F f) {
  for (std::size_t i = 0; i < n; ++i) y[i] = rapt::narrowed<E>(f(rapt::widened(x[i])));
}

template <class E>
void silu(const E *x, E *y, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  const Reduction<A> natural(1.0);
  map(x, y, n, [&](A v) { return v * sigmoid(natural, v); });
}

template <class E>
void gelu(const E *x, E *y, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  const Reduction<A> natural(1.0);
  map(x, y, n, [&](A v) { return gelu_one(natural, v); });
}

template <class E>
void gelu_tanh(const E *x, E *y, std::size_t n) {
  using A = rapt::Arithmetic<E>;
  using C = rapt::ActivationContract<A>;
  const Reduction<A> natural(1.0);
  map(x, y, n, [&](A v) { return v * sigmoid(natural, v * fused(v * v, C::cubic, C::linear)); });
}

}  // namespace
