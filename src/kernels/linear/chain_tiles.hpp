// Multiplies a few rows by a block of 64 outputs, as one chain of fused operations per group of 512 inputs.
// Outputs are in the vector lanes, and each element of a row is broadcast.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/linear/tiles.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/transposed.hpp"

namespace {

template <class Arithmetic>
struct ChainTiles : TileTraits {
  using A = Arithmetic;
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_fold;

  // On AVX-512, 6 rows by 64 outputs need 10 loads for 24 operations. 12 by 32 need 14, and were 3 to 6 %
  // slower.
  static constexpr std::size_t most_rows = 6;
  // One row has too few chains in a block to hide their latency.
  static constexpr std::size_t blocks_of_one_row = block / S::width < 8 ? 2 : 1;
  // One row has the most chains that fit next to the weights.
  static constexpr std::size_t vectors_of(std::size_t rows) { return tile_vectors<A>(rows, 16); }
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  // AVX2 holds the sums of one row of f32, and not of f64, next to the weights.
  static constexpr std::size_t groups_in_turn = S::reads_groups_in_turn && block / S::width <= 8 ? 4 : 1;
  static constexpr bool takes_plain_weights = true;

  // Adds a group's sums of products to the sums, or sets these if the group is the `first`.
  template <class Weights, std::size_t rows, std::size_t blocks>
  static void multiply(const TileOperands<A, typename Weights::Element, A> &tile, NoTerms, std::size_t inputs,
                       bool first, Prefetch &fetch) {
    if constexpr (std::is_pointer_v<typename Weights::Element>) {
      multiply_rows<rows, blocks>(tile, inputs, first);
    } else {
      multiply_columns<Weights, rows, blocks>(tile, inputs, first, fetch);
    }
  }

  // Adds the sums of up to groups_in_turn groups of a single row, like multiply(). It reads a page of each group in
  // turn, because some CPUs fetch several streams of memory at once.
  template <class E>
  [[gnu::noinline, gnu::flatten]] static void multiply_in_turn(const A *row, const E *weights,
                                                               std::size_t inputs, bool first, A *sums) {
    constexpr std::size_t vectors = block / S::width, page = 4096 / (block * sizeof(E));
    alignas(64) A part[groups_in_turn][block];
    for (std::size_t from = 0; from < group; from += page) {
      for (std::size_t g = 0; g < groups_in_turn; ++g) {
        const std::size_t at = g * group + from;
        if (at >= inputs) break;
        const std::size_t end = inputs - at < page ? inputs : at + page;
        batch sum[vectors];
        unroll<vectors>([&](std::size_t j) RAPT_INNER {
          sum[j] = from == 0 ? batch(A(0)) : S::load(part[g] + j * S::width);
        });
        const E *weight = weights + at * block;
        for (std::size_t k = at; k < end; ++k, weight += block) {
          const batch element(row[k]);
          unroll<vectors>([&](std::size_t j) RAPT_INNER {
            sum[j] = S::fma(element, S::load(weight + j * S::width), sum[j]);
          });
        }
        unroll<vectors>([&](std::size_t j) RAPT_INNER { S::store(part[g] + j * S::width, sum[j]); });
      }
    }
    for (std::size_t g = 0; g < groups_in_turn && g * group < inputs; ++g) {
      unroll<vectors>([&](std::size_t j) RAPT_INNER {
        add_group(sums + j * S::width, S::load(part[g] + j * S::width), first && g == 0);
      });
    }
  }

 private:
  RAPT_INNER static void add_group(A *to, batch sum, bool first) {
    S::store(to, first ? sum : S::load(to) + sum);
  }

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply_columns(
      const TileOperands<A, typename Weights::Element, A> &tile, std::size_t inputs, bool first,
      Prefetch &fetch) {
    constexpr std::size_t vectors = vectors_of(rows), all = blocks * vectors;
    // If sums leave too few registers for the weights of all vectors, four vectors are a part. Parts of three
    // rows of pairs would spill more.
    constexpr bool in_parts =
        (rows + 1) * all >= S::registers && all > 4 && (Weights::inputs == 1 || rows == 1);
    constexpr std::size_t together = in_parts ? 4 : all;
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      batch sum[rows][all];
      unroll_pairs<rows, all>([&](std::size_t r, std::size_t j) RAPT_INNER { sum[r][j] = batch(A(0)); });
      const A *row = tile.x;
      const auto *weight = tile.w + v * Weights::inputs;
      const auto at = [&](std::size_t j) RAPT_INNER {
        return weight + j / vectors * tile.to_next_weights + j % vectors * S::width * Weights::inputs;
      };
      const auto add = [&](auto inputs_of_weights) RAPT_INNER {
        unroll<all / together>([&](auto part) RAPT_INNER {
          unroll<inputs_of_weights>([&](auto half) RAPT_INNER {
            batch factor[together];
            load_weights<A, Weights, half>([&](std::size_t j) RAPT_INNER { return at(part * together + j); },
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
      unroll_pairs<rows, all>([&](std::size_t r, std::size_t j) RAPT_INNER {
        A *const to = tile.sums + j / vectors * tile.to_next_sums + r * block + v + j % vectors * S::width;
        add_group(to, sum[r][j], first);
      });
    }
  }

  // Transposes some inputs of each output in registers. One row needs the chains of 16 outputs to hide their latency.
  // Those of 32 read 32 rows of weights at once, which is 10 % slower on AVX-512.
  template <std::size_t rows, std::size_t blocks, class E>
  [[gnu::noinline, gnu::flatten]] static void multiply_rows(const TileOperands<A, const E *, A> &tile,
                                                            std::size_t inputs, bool first) {
    constexpr std::size_t vectors = rows == 1 && S::width < 16 ? 16 / S::width : 1;
    for (std::size_t n = 0; n < blocks * block; n += vectors * S::width) {
      batch sum[rows][vectors];
      unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER { sum[r][j] = batch(A(0)); });
      const A *row = tile.x;
      const auto add = [&](auto j, const A *x, batch weights) RAPT_INNER {
        unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r][j] = S::fma(batch(x[r]), weights, sum[r][j]); });
      };
      std::size_t k = 0;
      for (; inputs - k >= S::width; k += S::width, row += S::width * rows) {
        unroll<vectors>([&](std::size_t j) RAPT_INNER {
          S::each_transposed(tile.w + n + j * S::width, k,
                             [&](auto i, batch weights) RAPT_INNER { add(j, row + i * rows, weights); });
        });
      }
      if (k < inputs) {
        unroll<vectors>([&](std::size_t j) RAPT_INNER {
          batch weights[S::width];
          load_transposed<A>(weights, tile.w + n + j * S::width, k, inputs - k);
          unroll_while<S::width>([&](std::size_t i) RAPT_INNER {
            if (i < inputs - k) add(j, row + i * rows, weights[i]);
            return i < inputs - k;
          });
        });
      }
      unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
        const std::size_t of = n + j * S::width;
        A *const to = tile.sums + of / block * tile.to_next_sums + r * block + of % block;
        add_group(to, sum[r][j], first);
      });
    }
  }
};

}  // namespace
