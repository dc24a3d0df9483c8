// Turns the scores of a block into weights, with rows in the vector lanes.
#pragma once

#include <cstddef>

#include "contract/bf16_arithmetic.hpp"
#include "kernels/attention/panels.hpp"
#include "kernels/attention/weight.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Returns the sum of `count` vectors that are `pitch` apart, added by halves like the lanes in a fold.
template <class A, std::size_t count, std::size_t pitch>
RAPT_INNER inline typename simd<A>::batch sum_by_halves(const A *v) {
  if constexpr (count == 1) {
    return simd<A>::load(v);
  } else {
    return sum_by_halves<A, count / 2, 2 * pitch>(v) + sum_by_halves<A, count / 2, 2 * pitch>(v + pitch);
  }
}

// Turns the scores of a vector of rows into weights, 0 outside of [begin, end), and returns their sum.
template <class A>
[[gnu::noinline, gnu::flatten]] typename simd<A>::batch tile_weights(A *scores, std::size_t begin,
                                                                     std::size_t end,
                                                                     typename simd<A>::batch reference,
                                                                     typename simd<A>::batch to_log2,
                                                                     typename simd<A>::batch cutoff) {
  using S = simd<A>;
  using batch = typename S::batch;
  for (std::size_t j = 0; j < begin; ++j) S::store(scores + j * tile_pitch, batch(A(0)));
  for (std::size_t j = end; j < rapt::attention_block; ++j) S::store(scores + j * tile_pitch, batch(A(0)));
  const Weight<A> weight;
  const auto make = [&](std::size_t j) RAPT_INNER {
    A *const address = scores + j * tile_pitch;
    S::store(address, weight(S::load(address) - reference, to_log2, cutoff));
  };
  std::size_t j = begin;
  // If the level has ReloadsAddends, as NEON does, four vectors are computed in lockstep. A Neoverse N1
  // reorders only 128 instructions, hardly more than one polynomial. In a model of it, four vectors in
  // lockstep take 34 cycles instead of 44.
  for (; end - j >= 4; j += 4) {
    if constexpr (ReloadsAddends<S>) {
      batch v[4];
      unroll<4>([&](std::size_t i) RAPT_INNER { v[i] = S::load(scores + (j + i) * tile_pitch) - reference; });
      weight.in_step(v, to_log2, cutoff);
      unroll<4>([&](std::size_t i) RAPT_INNER { S::store(scores + (j + i) * tile_pitch, v[i]); });
    } else {
      unroll<4>([&](std::size_t i) RAPT_INNER { make(j + i); });
    }
  }
  for (; j < end; ++j) make(j);
  return sum_by_halves<A, rapt::attention_block, tile_pitch>(scores);
}

// Returns the weight of a score in RAPT_ARITHMETIC_BF16 (contract/bf16_arithmetic.hpp).
RAPT_INNER inline simd<float>::batch weight_of_16_bits(simd<float>::batch score, simd<float>::batch base,
                                                       simd<float>::batch offset,
                                                       simd<float>::batch to_log2) {
  using S = simd<float>;
  using C = rapt::Bf16Contract;
  using batch = typename S::batch;
  const batch z = S::fma(score - base, to_log2, offset), f = z - S::floor(z);
  const batch p = S::fma(S::fma(S::fma(batch(C::c3), f, batch(C::c2)), f, batch(C::c1)), f, z);
  const batch w = S::zero_where(S::less(z, batch(C::lowest)), S::lower_bf16(p + batch(C::magic)));
  return S::select(S::unordered(z, z), z, w);
}

// Does the work of tile_weights() in RAPT_ARITHMETIC_BF16, but without the sum.
[[gnu::noinline, gnu::flatten]] inline void tile_weights_of_16_bits(float *scores, std::size_t begin,
                                                                    std::size_t end, simd<float>::batch base,
                                                                    simd<float>::batch offset,
                                                                    simd<float>::batch to_log2) {
  using S = simd<float>;
  for (std::size_t j = 0; j < rapt::attention_block; ++j) {
    float *const at = scores + j * tile_pitch;
    S::store(at,
             j < begin || j >= end ? S::batch(0.0f) : weight_of_16_bits(S::load(at), base, offset, to_log2));
  }
}

}  // namespace
