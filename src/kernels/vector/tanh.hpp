// Computes the hyperbolic tangent of vectors, which the softcap of scores needs.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"
#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// With q = exp(-2|z|) - 1, tanh(|z|) = -q / (2 + q) keeps its accuracy near 0.
//
// The constants are those of exp(-2v), so |z| needs no multiplication, and the variable q holds -q / 2.
// Powers of two change no bit, and this saves two multiplications. Only the sign of a tanh of 0 may differ
// from the formula's, which does not change exp of the score.
template <class A>
RAPT_INNER inline typename simd<A>::batch tanh_of(typename simd<A>::batch z) {
  using S = simd<A>;
  using C = rapt::ExpContract<A>;
  using batch = typename S::batch;
  constexpr auto coefficient = [](std::size_t i) {
    A c = C::c[i];
    for (std::size_t j = 0; j <= i; ++j) c *= A(-2);
    return c;
  };
  const ExpParts<A> exp(exp_constants<A>(-2.0));
  const batch magic(C::round_magic), half(A(0.5)), one(A(1));
  const batch magnitude = S::min(batch(C::tanh_saturates), S::abs(z));
  const batch shifted = S::fma(magnitude, exp.log2_e, magic);
  const batch n = shifted - magic, r = exp.remainder(magnitude, n);
  batch q(coefficient(C::coefficient_count - 1));
  unroll<C::coefficient_count - 1>([&](auto i) RAPT_INNER {
    constexpr A c = coefficient(C::coefficient_count - 2 - i);
    q = S::fma(q, r, batch(c));
  });
  q = S::fma(r * r, q, r);
  batch two_to_n;
  if constexpr (ScalesByPower<S>) {
    two_to_n = S::scale_by_power(one, n);
  } else {
    two_to_n = S::add_exponent(one, shifted);
  }
  q = S::fma(two_to_n, q, S::fnma(two_to_n, half, half));
  return S::with_sign(S::divide(q, one - q), z);
}

}  // namespace
