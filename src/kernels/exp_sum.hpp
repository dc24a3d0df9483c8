// Computes exp of scaled and shifted elements, and the sum of the results.
#pragma once

#include <cstddef>

#include "kernels/vector/exp.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/sum.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Computes the terms exp(scale * x - shift) of the sum, and stores them to y.
template <class A>
struct ExpSumTerms {
  using S = simd<A>;
  using batch = typename S::batch;
  const A *x;
  A *y;
  batch factor, minus_shift;
  Exp<A> exp;

  template <std::size_t registers>
  RAPT_INNER void full(std::size_t i, batch (&e)[registers]) const {
    unroll<registers>([&](std::size_t r)
                          RAPT_INNER { e[r] = S::fma(factor, S::load(x + i + r * S::width), minus_shift); });
    exp(e);
    unroll<registers>([&](std::size_t r) RAPT_INNER { S::store(y + i + r * S::width, e[r]); });
  }
  RAPT_INNER batch first(std::size_t i, std::size_t k) const {
    const batch e = exp(S::fma(factor, S::load_first(x + i, k), minus_shift));
    S::store_first(y + i, e, k);
    return S::keep_first(e, k);
  }
};

template <class A>
[[gnu::flatten]] A exp_sum(const A *x, A scale, A shift, A *y, std::size_t n) {
  using batch = typename simd<A>::batch;
  return static_cast<A>(sum_of<A>(n, ExpSumTerms<A>{x, y, batch(scale), batch(-shift), {}}));
}

}  // namespace
