// Multiplies a few rows by pairs of weights in RAPT_ARITHMETIC_BF16 with BFMLALB and BFMLALT. A vector has a
// pair of inputs of four outputs, and both instructions multiply it by a lane of x: BFMLALB adds to the even
// chain, and BFMLALT to the odd one. Nothing is widened.
//
// Tiles of 6 rows by 2 vectors would take 2 % fewer instructions with 64 rows, and 2 % more with 4.
#pragma once

#include <cstddef>
#include <type_traits>

#include "isa/neon_bf16/simd.hpp"
#include "kernels/linear/linear_in_bf16.hpp"
#include "kernels/vector/inner.hpp"

namespace {

struct BfmlalTiles : K32Tiles {
  static constexpr bool converts_weights = false;  // pairs are never widened

  template <class Weights, std::size_t rows, std::size_t blocks>
  static void multiply(const TileOperands<A, typename Weights::Element, A> &tile, NoTerms none,
                       std::size_t inputs, bool first, Prefetch &fetch) {
    if constexpr (std::is_same_v<Weights, PairsOfBf16>) {
      multiply_pairs<rows>(tile, inputs, first, fetch);
    } else {
      K32Tiles::multiply<Weights, rows, blocks>(tile, none, inputs, first, fetch);
    }
  }

 private:
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void multiply_pairs(const TileOperands<A, rapt::BF16, A> &tile,
                                                             std::size_t inputs, bool first,
                                                             Prefetch &fetch) {
    using N = NeonBf16;
    constexpr std::size_t vectors = tile_vectors<A>(2 * rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const A *row = tile.x;
      const rapt::BF16 *weight = tile.w + 2 * v;
      PassOfPrefetch<> prefetch(fetch, inputs);
      bool begins = first;
      for (std::size_t begin = 0; begin < inputs; begin += k32) {
        const std::size_t end = inputs - begin < k32 ? inputs : begin + k32;
        batch even[rows][vectors], odd[rows][vectors];
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j)
                                        RAPT_INNER { even[r][j] = odd[r][j] = batch(0.0f); });
        const auto add = [&](auto of_pair) RAPT_INNER {
          // The inputs of all rows. The last vector reaches up to 12 bytes past them, into the next input or
          // other numbers of the workspace.
          constexpr std::size_t count = of_pair * rows;
          batch x[(count + S::width - 1) / S::width];
          unroll<(count + S::width - 1) / S::width>([&](std::size_t i)
                                                        RAPT_INNER { x[i] = S::load(row + i * S::width); });
          unroll<vectors>([&](std::size_t j) RAPT_INNER {
            const N::Halves pair = N::load(weight + j * N::width);
            unroll<rows>([&](auto r) RAPT_INNER {
              constexpr std::size_t next = rows + r;
              even[r][j] = N::add_even_by_lane<r % S::width>(even[r][j], pair, x[r / S::width]);
              if constexpr (of_pair == 2) {
                odd[r][j] = N::add_odd_by_lane<next % S::width>(odd[r][j], pair, x[next / S::width]);
              }
            });
          });
          row += count;
          weight += 2 * block;
        };
        std::size_t k = begin;
        for (; end - k >= 2; k += 2) {
          prefetch.step(k);
          add(std::integral_constant<std::size_t, 2>{});
        }
        if (k < end) add(std::integral_constant<std::size_t, 1>{});
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
          A *const to = tile.sums + r * block + v + j * S::width;
          const batch before = begins ? batch(0.0f) : S::load(to);
          S::store(to, before + (even[r][j] + odd[r][j]));
        });
        begins = false;
      }
    }
  }
};

struct BfmlalLayer : Bf16Layer<rapt::BF16> {
  using Tiles = BfmlalTiles;
  using Weights = WeightGroups<rapt::BF16, Tiles>;
};

}  // namespace
