// Computes silu, gelu and gelu_tanh of each element of an array (contract/activation.hpp), and their products with
// the elements of a second array.
#pragma once

#include <cstddef>

#include "contract/activation.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map_with_constants.hpp"
#include "kernels/vector/unroll.hpp"
#include "rapt/rapt.h"

namespace {

// Computes sigmoids, several vectors at a time.
template <class A>
struct Sigmoid {
  using S = simd<A>;
  using batch = typename S::batch;
  Exp<A> exp;

  // Replaces numbers by their sigmoids.
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    const batch one(A(1)), zero(A(0));
    batch e[registers];
    exp_of_minus_magnitude(v, e);
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      v[r] = S::divide(S::select(S::less(v[r], zero), e[r], one), one + e[r]);
    });
  }
  // Also computes the sigmoids of the negative numbers.
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers], batch (&of_negative)[registers]) const {
    const batch one(A(1)), zero(A(0));
    batch e[registers];
    exp_of_minus_magnitude(v, e);
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const batch d = one + e[r], larger = S::divide(one, d), smaller = S::divide(e[r], d);
      const auto negative = S::less(v[r], zero);
      v[r] = S::select(negative, smaller, larger);
      of_negative[r] = S::select(negative, larger, smaller);
    });
  }

 private:
  template <std::size_t registers>
  RAPT_INNER void exp_of_minus_magnitude(const batch (&v)[registers], batch (&e)[registers]) const {
    unroll<registers>([&](std::size_t r) RAPT_INNER { e[r] = batch(A(0)) - S::abs(v[r]); });
    exp(e);
  }
};

// What silu and gelu_tanh take the sigmoid of.
template <class A>
struct Argument {
  using S = simd<A>;
  using batch = typename S::batch;
  RAPT_INNER static batch of_silu(batch x) { return x; }
  RAPT_INNER static batch of_gelu_tanh(batch x) {
    using C = rapt::ActivationContract<A>;
    return x * S::fma(x * x, batch(C::cubic), batch(C::linear));
  }
};

template <class A, typename simd<A>::batch (*argument)(typename simd<A>::batch)>
struct TimesSigmoid {
  using batch = typename simd<A>::batch;
  Sigmoid<A> sigmoid;

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch s[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER { s[r] = argument(x[r]); });
    sigmoid(s);
    unroll<registers>([&](std::size_t r) RAPT_INNER { x[r] = x[r] * s[r]; });
  }
};
template <class A>
using Silu = TimesSigmoid<A, Argument<A>::of_silu>;
template <class A>
using GeluTanh = TimesSigmoid<A, Argument<A>::of_gelu_tanh>;

// Computes the normal distribution, several vectors at a time.
template <class A>
struct Normal {
  using S = simd<A>;
  using C = rapt::ActivationContract<A>;
  using batch = typename S::batch;
  Exp<A> exp;

  // Of x, computes the distribution, and e = exp(-a^2 / 2) of the limited magnitude a.
  template <std::size_t registers>
  RAPT_INNER void operator()(const batch (&x)[registers], batch (&distribution)[registers],
                             batch (&a)[registers], batch (&e)[registers]) const {
    const batch one(A(1)), zero(A(0)), minus_half(A(-0.5)), end(C::tail_end);
    batch l[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      a[r] = S::min(end, S::abs(x[r]));
      const batch h = a[r] * a[r];
      l[r] = S::fma(a[r], a[r], zero - h) * minus_half;
      e[r] = h * minus_half;
    });
    exp(e);
    unroll<registers>([&](std::size_t i) RAPT_INNER {
      const batch r = S::divide(one, a[i] + batch(A(4))), u = S::fma(batch(A(-8)), r, one);
      batch p(C::p[C::coefficient_count - 1]);
      unroll<C::coefficient_count - 1>(
          [&](std::size_t j) RAPT_INNER { p = S::fma(p, u, batch(C::p[C::coefficient_count - 2 - j])); });
      e[i] = S::fma(e[i], l[i], e[i]);
      const batch q = e[i] * (r * p);
      distribution[i] = S::select(S::less(x[i], zero), q, one - q);
    });
  }
};

template <class A>
struct Gelu {
  using batch = typename simd<A>::batch;
  Normal<A> normal;

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers]) const {
    batch distribution[registers], a[registers], e[registers];
    normal(x, distribution, a, e);
    unroll<registers>([&](std::size_t r) RAPT_INNER { x[r] = x[r] * distribution[r]; });
  }
};

// Multiplies what F computes by the elements of a second array.
template <class F, class E>
struct Gated {
  using S = simd<rapt::Arithmetic<E>>;
  const E *up;
  F f;

  RAPT_INNER explicit Gated(const E *second) : up(second) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(typename S::batch (&v)[registers], std::size_t i, std::size_t k) const {
    f(v);
    unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = v[r] * load_of<S>(up + i, r * S::width, k); });
  }
};

template <class E>
[[gnu::flatten]] void silu(const E *x, E *y, std::size_t n) {
  map_with_constants<Silu<rapt::Arithmetic<E>>>(x, y, n);
}
template <class E>
[[gnu::flatten]] void gelu(const E *x, E *y, std::size_t n) {
  map_with_constants<Gelu<rapt::Arithmetic<E>>>(x, y, n);
}
template <class E>
[[gnu::flatten]] void gelu_tanh(const E *x, E *y, std::size_t n) {
  map_with_constants<GeluTanh<rapt::Arithmetic<E>>>(x, y, n);
}

template <class E>
[[gnu::flatten]] void gated(const E *gate, const E *up, E *y, std::size_t n, rapt_activation activation) {
  using A = rapt::Arithmetic<E>;
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return map_with_constants<Gated<Class<A>, E>>(gate, y, n, up);
#include "contract/activations.def"
  }
}

}  // namespace
