// Computes weights 2^(distance * to_log2), where distance is a score minus the row's reference score.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "kernels/vector/addends.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// A vector takes 11 operations on AVX-512 in f32, one of them a comparison with the cutoff, and no branch.
// vector/exp.hpp tests several vectors at once. Here that would save the comparison but cost two operations,
// because most blocks of a causal call have a distance below the cutoff.
template <class A>
struct Weight {
  using S = simd<A>;
  using C = rapt::AttentionContract<A>;
  using batch = typename S::batch;

  RAPT_INNER batch operator()(batch distance, batch to_log2, batch cutoff) const {
    if constexpr (ReloadsAddends<S>) {
      batch v[1] = {distance};
      in_step(v, to_log2, cutoff);
      return v[0];
    }
    const batch magic(C::round_magic);
    const batch shifted = S::fma(distance, to_log2, magic);
    const batch n = shifted - magic;
    const batch r = S::fma(distance, to_log2, -n);
    batch p(C::c[C::coefficient_count - 1]);
    unroll<C::coefficient_count - 1>(
        [&](std::size_t i) RAPT_INNER { p = S::fma(p, r, batch(C::c[C::coefficient_count - 2 - i])); });
    p = S::fma(p, r, batch(A(1)));
    return S::scale_by_power_above(distance, cutoff, p, n, shifted);
  }

  // Computes several vectors in place and in lockstep, for an FMA that overwrites its addend and cannot
  // negate it. magic - shifted is -n except for the sign of a zero, which does not change the result.
  template <std::size_t count>
  RAPT_INNER void in_step(batch (&v)[count], batch to_log2, batch cutoff) const {
    using Constants = Addends<S, C>;
    const batch magic(C::round_magic);
    batch shifted[count], r[count], p[count];
    const auto each = [](auto f) RAPT_INNER { unroll<count>(f); };
    each([&](std::size_t i) RAPT_INNER { shifted[i] = S::fma(v[i], to_log2, Constants::round_magic()); });
    each([&](std::size_t i) RAPT_INNER { r[i] = S::fma(v[i], to_log2, magic - shifted[i]); });
    each([&](std::size_t i) RAPT_INNER { p[i] = batch(C::c[C::coefficient_count - 1]); });
    unroll<C::coefficient_count - 1>([&](std::size_t k) RAPT_INNER {
      each([&](std::size_t i)
               RAPT_INNER { p[i] = S::fma(p[i], r[i], Constants::c(C::coefficient_count - 2 - k)); });
    });
    each([&](std::size_t i) RAPT_INNER { p[i] = S::fma(p[i], r[i], Constants::one()); });
    each([&](std::size_t i) RAPT_INNER {
      v[i] = S::scale_by_power_above(v[i], cutoff, p[i], shifted[i] - magic, shifted[i]);
    });
  }
};

}  // namespace
