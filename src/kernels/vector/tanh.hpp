// The hyperbolic tangent of softcaps, by vectors.
#pragma once

#include "contract/exp.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// tanh(|z|) = -q / (2 + q) with q = exp(-2|z|) - 1, which keeps its accuracy near 0.
template <class A>
[[gnu::always_inline]] inline typename simd<A>::batch tanh_of(typename simd<A>::batch z) {
  using S = simd<A>;
  using C = rapt::ExpContract<A>;
  using batch = typename S::batch;
  const ExpParts<A> exp(exp_constants<A>(1.0));
  const batch limit(C::tanh_saturates), magic(C::round_magic), zero(A(0)), one(A(1));
  const batch magnitude = S::select(S::less(S::abs(z), limit), S::abs(z), limit);
  const batch t = magnitude * batch(A(-2));
  const batch shifted = S::fma(t, exp.log2_e, magic);
  const batch r = exp.remainder(t, shifted - magic);
  batch q = exp.c[C::coefficient_count - 1];
  unroll<C::coefficient_count - 1>([&](auto i) __attribute__((always_inline)) {
    q = S::fma(q, r, exp.c[C::coefficient_count - 2 - i]);
  });
  q = S::fma(r * r, q, r);
  const batch two_to_n = S::add_exponent(one, shifted);
  q = S::fma(two_to_n, q, two_to_n - one);
  const batch positive = S::divide(zero - q, batch(A(2)) + q);
  const batch result = S::select(S::less(z, zero), zero - positive, positive);
  return S::select(S::unordered(z, z), z, result);
}

}  // namespace
