// Multiplies a few rows by a block of 64 outputs, as one chain of fused operations per group of 512 inputs.
// Outputs are in the vector lanes, and each element of a row is broadcast.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/linear/tiles.hpp"

namespace {

template <class A>
struct ChainTiles {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_fold;

  // On AVX-512, 6 rows by 64 outputs need 10 loads for 24 operations. 12 by 32 need 14, and were 3 to 6 %
  // slower.
  static constexpr std::size_t most_rows = 6;
  // One row has too few chains in a block to hide their latency.
  static constexpr std::size_t blocks_of_one_row = block / S::width < 8 ? 2 : 1;
  // One row has the most chains that fit beside the weights.
  static constexpr std::size_t vectors_of(std::size_t rows) { return tile_vectors<A>(rows, 16); }
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  struct Mode {};  // the products need no mode of the processor

  // Adds a group's sums of products to the sums, or sets these if the group is the `first`.
  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<A, typename Weights::Element, A> &tile, NoTerms, std::size_t inputs, bool first,
      Prefetch &fetch) {
    constexpr std::size_t vectors = vectors_of(rows), all = blocks * vectors;
    // If sums leave too few registers for the weights of all vectors, four vectors are a part. Parts of three
    // rows of pairs would spill more.
    constexpr bool in_parts =
        (rows + 1) * all >= S::registers && all > 4 && (Weights::inputs == 1 || rows == 1);
    constexpr std::size_t together = in_parts ? 4 : all;
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      batch sum[rows][all];
      unroll_pairs<rows, all>([&](auto r, auto j)
                                  __attribute__((always_inline)) { sum[r][j] = batch(A(0)); });
      const A *row = tile.x;
      const auto *weight = tile.w + v * Weights::inputs;
      const auto at = [&](auto j) __attribute__((always_inline)) {
        return weight + j / vectors * tile.to_next_weights + j % vectors * S::width * Weights::inputs;
      };
      const auto add = [&](auto inputs_of_weights) __attribute__((always_inline)) {
        unroll<all / together>([&](auto part) __attribute__((always_inline)) {
          unroll<inputs_of_weights>([&](auto half) __attribute__((always_inline)) {
            batch factor[together];
            load_weights<A, Weights, half>(
                [&](auto j) __attribute__((always_inline)) {
                  return at(std::integral_constant<std::size_t, part * together + j>{});
                },
                factor);
            add_products<A, part * together>(row + half * rows, factor, sum);
          });
        });
        row += inputs_of_weights * rows;
      };
      PassOfPrefetch<> prefetch(fetch, inputs);
      std::size_t k = 0;
      for (; inputs - k >= Weights::inputs; k += Weights::inputs, weight += Weights::inputs * block) {
        prefetch.step(k);
        add(std::integral_constant<std::size_t, Weights::inputs>{});
      }
      // The first half of the last pair.
      if (k < inputs) add(std::integral_constant<std::size_t, 1>{});
      unroll_pairs<rows, all>([&](auto r, auto j) __attribute__((always_inline)) {
        A *const to = tile.sums + j / vectors * tile.to_next_sums + r * block + v + j % vectors * S::width;
        S::store(to, first ? sum[r][j] : S::load(to) + sum[r][j]);
      });
    }
  }
};

}  // namespace
