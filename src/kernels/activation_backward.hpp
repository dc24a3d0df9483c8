// Computes the gradients of silu, gelu and gelu_tanh, and of their products with a second array
// (contract/activation.hpp).
#pragma once

#include <cstddef>

#include "contract/activation.hpp"
#include "kernels/activation.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/map_with_constants.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// b, the limited x, with its sign.
template <class A>
RAPT_INNER inline typename simd<A>::batch limited(typename simd<A>::batch x, A end) {
  using S = simd<A>;
  return S::with_sign(S::min(typename S::batch(end), S::abs(x)), x);
}

// What the gradients of silu and gelu_tanh multiply sigmoid(-v) by.
template <class A>
struct Slope {
  using S = simd<A>;
  using C = rapt::ActivationContract<A>;
  using batch = typename S::batch;
  RAPT_INNER static batch of_silu(batch x) { return limited<A>(x, C::sigmoid_end); }
  RAPT_INNER static batch of_gelu_tanh(batch x) {
    const batch b = limited<A>(x, C::tail_end);
    return b * S::fma(b * b, batch(C::slope), batch(C::linear));
  }
};

template <class A, typename simd<A>::batch (*argument)(typename simd<A>::batch),
          typename simd<A>::batch (*slope)(typename simd<A>::batch)>
struct TimesSigmoidBackward {
  using S = simd<A>;
  using batch = typename S::batch;
  const A *dy;
  Sigmoid<A> sigmoid;

  RAPT_INNER explicit TimesSigmoidBackward(const A *second) : dy(second) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], std::size_t i, std::size_t k) const {
    batch s[registers], t[registers];
    unroll<registers>([&](std::size_t r) RAPT_INNER { s[r] = argument(x[r]); });
    sigmoid(s, t);
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      x[r] = load_of<S>(dy + i, r * S::width, k) * (s[r] * S::fma(slope(x[r]), t[r], batch(A(1))));
    });
  }
};

template <class A>
struct GeluBackward {
  using S = simd<A>;
  using batch = typename S::batch;
  const A *dy;
  Normal<A> normal;

  RAPT_INNER explicit GeluBackward(const A *second) : dy(second) {}
  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&x)[registers], std::size_t i, std::size_t k) const {
    batch distribution[registers], a[registers], e[registers];
    normal(x, distribution, a, e);
    unroll<registers>([&](std::size_t r) RAPT_INNER {
      const batch density = e[r] * batch(rapt::ActivationContract<A>::density);
      x[r] = load_of<S>(dy + i, r * S::width, k) * S::fma(S::with_sign(a[r], x[r]), density, distribution[r]);
    });
  }
};

template <class A>
[[gnu::flatten]] void silu_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  using F = TimesSigmoidBackward<A, Argument<A>::of_silu, Slope<A>::of_silu>;
  map_with_constants<F>(x, dx, n, dy);
}
template <class A>
[[gnu::flatten]] void gelu_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  map_with_constants<GeluBackward<A>>(x, dx, n, dy);
}
template <class A>
[[gnu::flatten]] void gelu_tanh_backward(const A *x, const A *dy, A *dx, std::size_t n) {
  using F = TimesSigmoidBackward<A, Argument<A>::of_gelu_tanh, Slope<A>::of_gelu_tanh>;
  map_with_constants<F>(x, dx, n, dy);
}

template <class A>
auto backward_of(rapt_activation activation) {
  switch (activation) {
#define ACTIVATION(function, Class, number) \
  case number:                              \
    return function##_backward<A>;
#include "contract/activations.def"
  }
  __builtin_unreachable();
}

// Works in blocks, so that what is between the functions stays in L1. dgate may be gate, and dup may be up.
template <class A>
void gated_backward(const A *gate, const A *up, const A *dy, A *dgate, A *dup, std::size_t n,
                    rapt_activation activation) {
  using S = simd<A>;
  constexpr std::size_t block = 2048 / sizeof(A);
  const auto backward = backward_of<A>(activation);
  alignas(64) A product[block];
  for (std::size_t i = 0; i < n; i += block) {
    const std::size_t k = n - i < block ? n - i : block;
    for (std::size_t j = 0; j < k; j += S::width) {
      S::store(product + j, load_of<S>(dy + i, j, k) * load_of<S>(up + i, j, k));
    }
    gated(gate + i, dy + i, dup + i, k, activation);
    backward(gate + i, product, dgate + i, k);
  }
}

}  // namespace
