// The constants of exp(scale * v).
#pragma once

#include <cmath>
#include <cstddef>

#include "contract/exp.hpp"

namespace {

// exp(scale * v) = 2^n * exp(scale * r) with r = v - n * (ln 2 / scale).
//
// Scaling these constants instead of each v costs nothing for an element and rounds nothing: a score is the
// exact product of its element and the scale. A scale that is a power of two scales every constant exactly,
// and gives the bits that scaling v first gives.
template <class T>
struct ExpConstants {
  T log2_e;
  T ln2_hi;
  T ln2_lo;
  T scale;  // the polynomial's linear coefficient
  T c[rapt::Contract<T>::coefficient_count];
};

template <class T>
ExpConstants<T> exp_constants(double scale) {
  using C = rapt::Contract<T>;
  using C64 = rapt::Contract<double>;
  ExpConstants<T> k;
  k.log2_e = static_cast<T>(scale * C64::log2_e);
  k.ln2_hi = static_cast<T>(C64::ln2_hi / scale);
  // ln2 / scale - ln2_hi through the remainder, which the fused operation makes exact.
  const double remainder = std::fma(-double{k.ln2_hi}, scale, C64::ln2_hi);
  k.ln2_lo = static_cast<T>((remainder + C64::ln2_lo) / scale);
  k.scale = static_cast<T>(scale);
  double power = scale;
  for (std::size_t i = 0; i < C::coefficient_count; ++i) {
    power *= scale;
    k.c[i] = static_cast<T>(double{C::c[i]} * power);
  }
  return k;
}

}  // namespace
