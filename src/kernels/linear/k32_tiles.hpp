// Multiplies a few rows by a block of 64 outputs in bf16 arithmetic (contract/bf16_arithmetic.hpp): a chain
// over the even and one over the odd inputs of each 32.
#pragma once

#include <cstddef>

#include "contract/bf16_arithmetic.hpp"
#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"

namespace {

struct K32Tiles : TileTraits {
  using A = float;
  using S = simd<float>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::linear_block, k32 = rapt::Bf16Contract::k32;
  // The weights of two k32 stay in L1 while all tiles read them. Tiles of 3 rows would read 512 from L2 too often.
  static constexpr std::size_t group = 2 * k32;

  // The two chains of 3 rows by 64 outputs fill AVX-512's registers.
  static constexpr std::size_t most_rows = 3;
  static constexpr std::size_t bytes_in_turn = 8192;  // of each block, if a single row reads blocks in turn
  static constexpr std::size_t passes(std::size_t rows) {
    return block / (S::width * tile_vectors<A>(2 * rows));
  }

  using Mode = S::Flushing;

  // Adds the products of each 32 inputs to the sums. If the group is the `first`, the sums begin with +0.
  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<A, typename Weights::Element, A> &tile, NoTerms, std::size_t inputs, bool first,
      Prefetch &fetch) {
    static_assert(blocks == 1);
    constexpr std::size_t vectors = tile_vectors<A>(2 * rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const A *row = tile.x;
      const auto *weight = tile.w + v * Weights::inputs;
      PassOfPrefetch<> prefetch(fetch, inputs);
      bool begins = first;
      for (std::size_t begin = 0; begin < inputs; begin += k32) {
        const std::size_t end = inputs - begin < k32 ? inputs : begin + k32;
        batch chain[2][rows][vectors];
        unroll<2>([&](std::size_t half) RAPT_INNER {
          unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j)
                                          RAPT_INNER { chain[half][r][j] = batch(0.0f); });
        });
        const auto add = [&](auto half) RAPT_INNER {
          const auto *from = weight + (Weights::inputs == 1 ? half * block : 0);
          batch factor[vectors];
          load_weights<A, Weights, half>(
              [&](std::size_t j) RAPT_INNER { return from + j * S::width * Weights::inputs; }, factor);
          unroll<vectors>([&](std::size_t j) RAPT_INNER { S::keep_in_register(factor[j]); });
          unroll<rows>([&](std::size_t r) RAPT_INNER {
            const batch element(row[half * rows + r]);
            unroll<vectors>([&](std::size_t j) RAPT_INNER {
              chain[half][r][j] = S::fma(element, factor[j], chain[half][r][j]);
            });
          });
        };
        std::size_t k = begin;
        for (; end - k >= 2; k += 2, weight += 2 * block, row += 2 * rows) {
          prefetch.step(k);
          add(std::integral_constant<std::size_t, 0>{});
          add(std::integral_constant<std::size_t, 1>{});
        }
        if (k < end) add(std::integral_constant<std::size_t, 0>{});
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
          A *const to = tile.sums + r * block + v + j * S::width;
          const batch before = begins ? batch(0.0f) : S::load(to);
          S::store(to, before + (chain[0][r][j] + chain[1][r][j]));
        });
        begins = false;
      }
    }
  }
};

}  // namespace
