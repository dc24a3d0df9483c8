// Computes silu, gelu and gelu_tanh of each element of an array (contract/activation.hpp).
#pragma once

#include <cstddef>

#include "contract/activation.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Replaces numbers by their sigmoids, several vectors at a time.
template <class A>
struct Sigmoid {
  using S = simd<A>;
  using batch = typename S::batch;
  Exp<A> exp;

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&v)[registers]) const {
    const batch one(A(1)), zero(A(0));
    batch e[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) { e[r] = zero - S::abs(v[r]); });
    exp(e);
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      v[r] = S::divide(S::select(S::less(v[r], zero), e[r], one), one + e[r]);
    });
  }
};

template <class A>
struct Silu {
  using batch = typename simd<A>::batch;
  Sigmoid<A> sigmoid;

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&x)[registers]) const {
    batch s[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) { s[r] = x[r]; });
    sigmoid(s);
    unroll<registers>([&](auto r) __attribute__((always_inline)) { x[r] = x[r] * s[r]; });
  }
};

template <class A>
struct GeluTanh {
  using S = simd<A>;
  using C = rapt::ActivationContract<A>;
  using batch = typename S::batch;
  Sigmoid<A> sigmoid;

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&x)[registers]) const {
    batch s[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      s[r] = x[r] * S::fma(x[r] * x[r], batch(C::cubic), batch(C::linear));
    });
    sigmoid(s);
    unroll<registers>([&](auto r) __attribute__((always_inline)) { x[r] = x[r] * s[r]; });
  }
};

template <class A>
struct Gelu {
  using S = simd<A>;
  using C = rapt::ActivationContract<A>;
  using batch = typename S::batch;
  Exp<A> exp;

  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(batch (&x)[registers]) const {
    const batch one(A(1)), zero(A(0)), minus_half(A(-0.5)), end(C::tail_end);
    batch a[registers], e[registers], l[registers];
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      a[r] = S::min(end, S::abs(x[r]));
      const batch h = a[r] * a[r];
      l[r] = S::fma(a[r], a[r], zero - h) * minus_half;
      e[r] = h * minus_half;
    });
    exp(e);
    unroll<registers>([&](auto i) __attribute__((always_inline)) {
      const batch r = S::divide(one, a[i] + batch(A(4))), u = S::fma(batch(A(-8)), r, one);
      batch p(C::p[C::coefficient_count - 1]);
      unroll<C::coefficient_count - 1>([&](auto j) __attribute__((always_inline)) {
        p = S::fma(p, u, batch(C::p[C::coefficient_count - 2 - j]));
      });
      const batch q = S::fma(e[i], l[i], e[i]) * (r * p);
      x[i] = x[i] * S::select(S::less(x[i], zero), q, one - q);
    });
  }
};

// This is a separate function, because setting up its constants would cost a short array time and registers.
template <template <class> class F, class E>
[[gnu::flatten, gnu::noinline]] void activate_long(const E *x, E *y, std::size_t n) {
  map(x, y, n, F<rapt::Arithmetic<E>>());
}

template <template <class> class F, class E>
[[gnu::always_inline]] inline void activate(const E *x, E *y, std::size_t n) {
  using S = simd<rapt::Arithmetic<E>>;
  using batch = typename S::batch;
  constexpr std::size_t width = S::width;
  if (n > 2 * width) return activate_long<F>(x, y, n);
  if (n == 0) return;  // x and y may be invalid, and an emulator may access memory even under an empty mask
  const F<rapt::Arithmetic<E>> f;
  if (n <= width) {
    batch v[1] = {S::load_first(x, n)};
    f(v);
    return S::store_first(y, v[0], n);
  }
  batch v[2] = {S::load(x), S::load_first(x + width, n - width)};
  f(v);
  S::store(y, v[0]);
  S::store_first(y + width, v[1], n - width);
}

template <class E>
[[gnu::flatten]] void silu(const E *x, E *y, std::size_t n) {
  activate<Silu>(x, y, n);
}
template <class E>
[[gnu::flatten]] void gelu(const E *x, E *y, std::size_t n) {
  activate<Gelu>(x, y, n);
}
template <class E>
[[gnu::flatten]] void gelu_tanh(const E *x, E *y, std::size_t n) {
  activate<GeluTanh>(x, y, n);
}

}  // namespace
