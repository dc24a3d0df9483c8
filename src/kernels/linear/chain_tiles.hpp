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
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_sum_group;

  // On AVX-512, 6 rows by 64 outputs need 10 loads for 24 operations. 12 by 32 need 14, and were 3 to 6 %
  // slower.
  static constexpr std::size_t most_rows = 6;
  // On AVX-512, one row of f32 has too few chains in a block to hide their latency. f64 has enough, but takes .80 of
  // the time from memory with two: they are two streams, which need no prefetches.
  static constexpr std::size_t blocks_of_one_row = S::registers == 32 && block / S::width <= 8 ? 2 : 1;
  // One row has the most chains that fit next to the weights.
  static constexpr std::size_t vectors_of(std::size_t rows) { return tile_vectors<A>(rows, 16); }
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  // AVX2 holds the sums of one row of f32, and not of f64, next to the weights.
  static constexpr std::size_t groups_in_turn = S::reads_groups_in_turn && block / S::width <= 8 ? 4 : 1;
  static constexpr bool takes_plain_weights = true, takes_offsets = true, reads_in_order = true;

  // Adds a group's sums of products to the sums, or sets these if the group is the `first`.
  template <class Weights, std::size_t rows, std::size_t blocks>
  static void multiply(const TileOperands<A, typename Weights::Element, A> &tile, NoTerms, std::size_t inputs,
                       bool first, Prefetch &fetch) {
    if constexpr (std::is_pointer_v<typename Weights::Element>) {
      multiply_rows<rows, blocks>(tile, inputs, first);
    } else {
      if constexpr (blocks == 1 && !are_at_offsets<Weights>) {
        if (fetch.in_order) return multiply_in_order<Weights, rows>(tile, inputs, first);
      }
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

  // Returns where the sum of a row and of vector j of those from output v on is.
  template <std::size_t rows, class Tile>
  RAPT_INNER static A *sum_at(const Tile &tile, std::size_t v, std::size_t r, std::size_t j) {
    constexpr std::size_t vectors = vectors_of(rows);
    return tile.sums + j / vectors * tile.to_next_sums + r * block + v + j % vectors * S::width;
  }

  // Adds the products of the inputs [from, end) to the sums of the vectors from output v on. It calls step(input)
  // before those of each input or pair.
  template <class Weights, std::size_t rows, std::size_t all, class Step>
  RAPT_INNER static void add_columns(const TileOperands<A, typename Weights::Element, A> &tile, std::size_t v,
                                     std::size_t from, std::size_t end, batch (&sum)[rows][all], Step step) {
    constexpr std::size_t vectors = vectors_of(rows);
    // If sums leave too few registers for the weights of all vectors, four vectors are a part. Parts of three
    // rows of pairs would spill more.
    constexpr bool in_parts =
        (rows + 1) * all >= S::registers && all > 4 && (Weights::inputs == 1 || rows == 1);
    constexpr std::size_t together = in_parts ? 4 : all;
    const A *row = tile.x + from * rows;
    const auto *weight = tile.w + (are_at_offsets<Weights> ? 0 : from * block) + v * Weights::inputs;
    std::size_t k = from;
    const auto at = [&](std::size_t j) RAPT_INNER {
      const auto *const of_input = are_at_offsets<Weights> ? weight + tile.offsets[k] : weight;
      return of_input + j / vectors * tile.to_next_weights + j % vectors * S::width * Weights::inputs;
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
    for (; end - k >= Weights::inputs; k += Weights::inputs) {
      step(k);
      add(std::integral_constant<std::size_t, Weights::inputs>{});
      if constexpr (!are_at_offsets<Weights>) weight += Weights::inputs * block;
    }
    // The first half of the last pair.
    if (k < end) add(std::integral_constant<std::size_t, 1>{});
  }

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply_columns(
      const TileOperands<A, typename Weights::Element, A> &tile, std::size_t inputs, bool first,
      Prefetch &fetch) {
    constexpr std::size_t vectors = vectors_of(rows), all = blocks * vectors;
    for (std::size_t v = 0; v < block && v < tile.outputs; v += vectors * S::width) {
      batch sum[rows][all];
      unroll_pairs<rows, all>([&](std::size_t r, std::size_t j) RAPT_INNER { sum[r][j] = batch(A(0)); });
      PassOfPrefetch<> prefetch(fetch, inputs);
      const auto step = [&](std::size_t k) RAPT_INNER { prefetch.step(k); };
      // Each tile reads all weights of a group from L2: a line for every 3 cycles of products on AVX-512.
      constexpr bool may_prefetch =
          S::leaves_prefetches_to_cpu && rows == most_rows && !are_at_offsets<Weights>;
      if (may_prefetch && fetch.to_l1) {
        constexpr std::size_t bytes = block * sizeof(typename Weights::Element), ahead = 4 * bytes;
        static_assert(!may_prefetch || vectors * S::width == block);
        const char *line = reinterpret_cast<const char *>(tile.w) + ahead;
        add_columns<Weights>(tile, v, 0, inputs, sum, [&](std::size_t k) RAPT_INNER {
          step(k);
          unroll<bytes / 64>([&](std::size_t i) RAPT_INNER { __builtin_prefetch(line + i * 64, 0, 3); });
          line += bytes;
        });
      } else {
        add_columns<Weights>(tile, v, 0, inputs, sum, step);
      }
      unroll_pairs<rows, all>([&](std::size_t r, std::size_t j)
                                  RAPT_INNER { add_group(sum_at<rows>(tile, v, r, j), sum[r][j], first); });
    }
  }

  // Multiplies like multiply(), and reads packed weights once, in the order of memory: all passes over some inputs come
  // before the next inputs, whose weights they prefetch to L1.
  template <class Weights, std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void multiply_in_order(
      const TileOperands<A, typename Weights::Element, A> &tile, std::size_t inputs, bool first) {
    constexpr std::size_t vectors = vectors_of(rows), count = passes(rows), ahead = 8192;
    constexpr std::size_t bytes = block * sizeof(typename Weights::Element),
                          lines = Weights::inputs * bytes / 64;
    constexpr std::size_t part = count == 1 ? group : ahead / bytes;
    static_assert(lines % count == 0 || count % lines == 0);
    alignas(64) A partial[count == 1 ? 1 : rows * block];
    for (std::size_t from = 0; from < inputs; from += part) {
      const std::size_t end = inputs - from < part ? inputs : from + part;
      const char *line = reinterpret_cast<const char *>(tile.w + from * block) + ahead;
      for (std::size_t v = 0; v < block && v < tile.outputs; v += vectors * S::width) {
        const auto partial_at = [&](std::size_t r, std::size_t j)
                                    RAPT_INNER { return partial + r * block + v + j * S::width; };
        batch sum[rows][vectors];
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
          sum[r][j] = count == 1 || from == 0 ? batch(A(0)) : S::load(partial_at(r, j));
        });
        add_columns<Weights>(tile, v, from, end, sum, [&](std::size_t) RAPT_INNER {
          if constexpr (count > lines) {
            if (v % (block / lines) != 0) return;
          }
          unroll<(lines > count ? lines / count : 1)>([&](std::size_t) RAPT_INNER {
            __builtin_prefetch(line, 0, 3);
            line += 64;
          });
        });
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
          if (count == 1 || end == inputs) {
            add_group(sum_at<rows>(tile, v, r, j), sum[r][j], first);
          } else {
            S::store(partial_at(r, j), sum[r][j]);
          }
        });
      }
    }
  }

  // Transposes some inputs of each output in registers. One row needs the chains of 16 outputs to hide their latency.
  // Those of 32 read 32 rows of weights at once, which is 10 % slower on AVX-512.
  template <std::size_t rows, std::size_t blocks, class E>
  [[gnu::noinline, gnu::flatten]] static void multiply_rows(const TileOperands<A, const E *, A> &tile,
                                                            std::size_t inputs, bool first) {
    constexpr std::size_t vectors = rows == 1 && S::width < 16 ? 16 / S::width : 1;
    for (std::size_t n = 0; n < blocks * block && n < tile.outputs; n += vectors * S::width) {
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
