// The weight of a score: 2^(distance * to_log2), by vectors.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "kernels/vector/addends.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// 11 operations on AVX-512 in f32, one comparison among them, and no branch. exp's test of several vectors
// would save the comparison and cost two operations: most blocks of a causal call have a distance below the
// cutoff.
template <class A>
struct Weight {
  using S = simd<A>;
  using C = rapt::AttentionContract<A>;
  using batch = typename S::batch;
  using Constants = Addends<S, C>;

  [[gnu::always_inline]] batch operator()(batch distance, batch to_log2, batch cutoff) const {
    const batch magic(C::round_magic);
    const batch shifted = S::fma(distance, to_log2, Constants::round_magic());
    const batch n = shifted - magic;
    // The two differ in the sign of a zero, which r = 0 does not pass on to p. An FMA that overwrites its
    // addend cannot negate it either.
    const batch r = S::fma(distance, to_log2, ReloadsAddends<S> ? magic - shifted : -n);
    batch p(C::c[C::coefficient_count - 1]);
    unroll<C::coefficient_count - 1>([&](auto i) __attribute__((always_inline)) {
      p = S::fma(p, r, Constants::c(C::coefficient_count - 2 - i));
    });
    p = S::fma(p, r, Constants::one());
    return S::scale_by_power_above(distance, cutoff, p, n, shifted);
  }
};

}  // namespace
