// Implements the scalar reference of silu, gelu and gelu_tanh, of their products and of the gradients.
#pragma once

#include <cmath>
#include <cstddef>

#include "contract/activation.hpp"
#include "contract/fused.hpp"
#include "contract/types.hpp"
#include "isa/scalar/exp.hpp"
#include "rapt/rapt.h"

namespace {

template <class A>
A sigmoid(const Reduction<A> &natural, A v) {
  const A e = exp_one(natural, -std::fabs(v));
  return (v < 0 ? e : A(1)) / (1 + e);
}

template <class A>
A silu_one(const Reduction<A> &natural, A x) {
  return x * sigmoid(natural, x);
}

template <class A>
A gelu_tanh_argument(A x) {
  using C = rapt::ActivationContract<A>;
  return x * fused(x * x, C::cubic, C::linear);
}

template <class A>
A gelu_tanh_one(const Reduction<A> &natural, A x) {
  return x * sigmoid(natural, gelu_tanh_argument(x));
}

// Of x, holds the normal distribution, and exp(-a^2 / 2) of the limited magnitude a.
template <class A>
struct Normal {
  A distribution, a, e;

  Normal(const Reduction<A> &natural, A x) {
    using C = rapt::ActivationContract<A>;
    const A magnitude = std::fabs(x);
    a = magnitude > C::tail_end ? C::tail_end : magnitude;
    const A h = a * a, l = fused(a, a, -h);
    e = exp_one(natural, h * A(-0.5));
    e = fused(e, l * A(-0.5), e);
    const A r = 1 / (a + 4), u = fused(A(-8), r, A(1));
    A p = C::p[C::coefficient_count - 1];
    for (std::size_t i = C::coefficient_count - 1; i-- > 0;) p = fused(p, u, C::p[i]);
    const A q = e * (r * p);
    distribution = x < 0 ? q : 1 - q;
  }
};

template <class A>
A gelu_one(const Reduction<A> &natural, A x) {
  return x * Normal<A>(natural, x).distribution;
}

template <class A>
A activation_one(rapt_activation activation, const Reduction<A> &natural, A x) {
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return function##_one(natural, x);
#include "contract/activations.def"
  }
  __builtin_unreachable();
}

template <class A>
A limited(A x, A end) {
  const A magnitude = std::fabs(x);
  return std::copysign(magnitude > end ? end : magnitude, x);
}

template <class A>
A silu_slope(const Reduction<A> &natural, A x) {
  using C = rapt::ActivationContract<A>;
  return sigmoid(natural, x) * fused(limited(x, C::sigmoid_end), sigmoid(natural, -x), A(1));
}

template <class A>
A gelu_slope(const Reduction<A> &natural, A x) {
  using C = rapt::ActivationContract<A>;
  const Normal<A> normal(natural, x);
  return fused(std::copysign(normal.a, x), normal.e * C::density, normal.distribution);
}

template <class A>
A gelu_tanh_slope(const Reduction<A> &natural, A x) {
  using C = rapt::ActivationContract<A>;
  const A v = gelu_tanh_argument(x), b = limited(x, C::tail_end), w = b * fused(b * b, C::slope, C::linear);
  return sigmoid(natural, v) * fused(w, sigmoid(natural, -v), A(1));
}

// Returns the derivative of the activation at x.
template <class A>
A slope_one(rapt_activation activation, const Reduction<A> &natural, A x) {
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return function##_slope(natural, x);
#include "contract/activations.def"
  }
  __builtin_unreachable();
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
  map(x, y, n, [&](A v) { return silu_one(natural, v); });
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
  const Reduction<A> natural(1.0);
  map(x, y, n, [&](A v) { return gelu_tanh_one(natural, v); });
}

template <class E>
void gated(const E *gate, const E *up, E *y, std::size_t n, rapt_activation activation) {
  using A = rapt::Arithmetic<E>;
  const Reduction<A> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) {
    y[i] =
        rapt::narrowed<E>(activation_one(activation, natural, rapt::widened(gate[i])) * rapt::widened(up[i]));
  }
}

template <class A>
void activation_backward(rapt_activation activation, const A *x, const A *dy, A *dx, std::size_t n) {
  const Reduction<A> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) dx[i] = dy[i] * slope_one(activation, natural, x[i]);
}

template <class A>
void silu_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  activation_backward(RAPT_SILU, x, dy, dx, n);
}

template <class A>
void gelu_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  activation_backward(RAPT_GELU, x, dy, dx, n);
}

template <class A>
void gelu_tanh_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  activation_backward(RAPT_GELU_TANH, x, dy, dx, n);
}

template <class A>
void gated_backward(const A *gate, const A *up, const A *dy, A *dgate, A *dup, std::size_t n,
                    rapt_activation activation) {
  const Reduction<A> natural(1.0);
  for (std::size_t i = 0; i < n; ++i) {
    const A x = gate[i], product = dy[i] * up[i];
    dup[i] = activation_one(activation, natural, x) * dy[i];
    dgate[i] = product * slope_one(activation, natural, x);
  }
}

}  // namespace
