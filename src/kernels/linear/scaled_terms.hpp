// Adds the groups of the sum over quantized weights to the sums of a tile.
#pragma once

#include <cstddef>

#include "contract/linear.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Scales and offsets are [groups][64], from the tile's first group on. offsets is null if there are none.
struct ScaledTerms {
  std::size_t fold;
  const float *scales, *offsets;

  // Adds p[r][j], the sum of products of row r and vector j of outputs from n on, to sums[r * 64 + n]. x_sum(r)
  // returns the sum of the row's x, which the offsets multiply. Each option is looked at once per group.
  template <std::size_t rows, std::size_t vectors, class XSum>
  [[gnu::always_inline]] void add(const simd<float>::batch (&p)[rows][vectors], std::size_t group,
                                  std::size_t n, float *sums, XSum x_sum) const {
    using S = simd<float>;
    using batch = typename S::batch;
    const float *const at = scales + group * rapt::linear_block + n;
    batch scale[vectors];
    unroll<vectors>([&](auto j) __attribute__((always_inline)) { scale[j] = S::load(at + j * S::width); });
    unroll_pairs<rows, vectors>([&](auto r, auto j) __attribute__((always_inline)) {
      float *const to = sums + r * rapt::linear_block + n + j * S::width;
      S::store(to, S::fma(scale[j], p[r][j], S::load(to)));
    });
    if (!offsets) return;
    const float *const from = offsets + group * rapt::linear_block + n;
    unroll<vectors>([&](auto j) __attribute__((always_inline)) { scale[j] = S::load(from + j * S::width); });
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      const batch sum = x_sum(r);
      unroll<vectors>([&](auto j) __attribute__((always_inline)) {
        float *const to = sums + r * rapt::linear_block + n + j * S::width;
        S::store(to, S::fma(sum, scale[j], S::load(to)));
      });
    });
  }

  // Sets the sums of the vectors to 0.
  template <std::size_t rows, std::size_t vectors>
  [[gnu::always_inline]] static void clear(std::size_t n, float *sums) {
    using S = simd<float>;
    unroll_pairs<rows, vectors>([&](auto r, auto j) __attribute__((always_inline)) {
      S::store(sums + r * rapt::linear_block + n + j * S::width, typename S::batch(0.0f));
    });
  }
};

}  // namespace
