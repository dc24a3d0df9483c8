// Computes the constants of exp(scale * v).
#pragma once

#include <cstddef>

#include "contract/exp.hpp"
#include "contract/fused.hpp"

namespace {

// exp(scale * v) = 2^n * exp(scale * r) with r = v - n * (ln 2 / scale).
//
// Scaling these constants instead of each v costs nothing per element and rounds nothing: a score is the
// exact product of its element and the scale. If the scale is a power of two, every constant is exact, and
// the bits are those of scaling v first.
template <class A>
struct ExpConstants {
  A log2_e;
  A ln2_hi;
  A ln2_lo;
  A scale;  // the polynomial's linear coefficient
  A c[rapt::ExpContract<A>::coefficient_count];
};

template <class A>
ExpConstants<A> exp_constants(double scale) {
  using C = rapt::ExpContract<A>;
  using C64 = rapt::ExpContract<double>;
  ExpConstants<A> k;
  k.log2_e = static_cast<A>(scale * C64::log2_e);
  k.ln2_hi = static_cast<A>(C64::ln2_hi / scale);
  // Computes ln2 / scale - ln2_hi from the remainder, which the fused operation makes exact.
  const double remainder = fused(-double{k.ln2_hi}, scale, C64::ln2_hi);
  k.ln2_lo = static_cast<A>((remainder + C64::ln2_lo) / scale);
  k.scale = static_cast<A>(scale);
  double power = scale;
  for (std::size_t i = 0; i < C::coefficient_count; ++i) {
    power *= scale;
    k.c[i] = static_cast<A>(double{C::c[i]} * power);
  }
  return k;
}

template <class A>
constexpr ExpConstants<A> exp2_constants() {
  using C = rapt::Exp2Contract<A>;
  ExpConstants<A> k{1, 1, 0, C::linear, {}};
  for (std::size_t i = 0; i < C::coefficient_count; ++i) k.c[i] = C::c[i];
  return k;
}

}  // namespace
