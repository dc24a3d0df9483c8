// Multiplies a few rows of integers by the codes of a block of 64 outputs. Sums of a group are exact.
//
// Each instruction-set level defines a class Quads, which multiplies four inputs of an output at a time:
//
//   X, place(j)          type of a row's integers, and the place of input j among the four
//   most_rows, sum_registers    rows of a tile, and registers of a Sums
//   Sums, start(n)       sums of a vector of outputs, each beginning with n
//   Weights, weights(w)  the codes of a vector of outputs, from a vector of words
//   add(s, weights, x)   returns s plus the products of a row's four integers at x
//   code_bias            what the level subtracts from each code
//   numbers(s)           the sums as f32
//
// For number_tiles.hpp, it also has
//
//   look_up(table, codes)   the elements of a table of 16 that the low 4 bits of each lane name
//   with_magic<mask>(codes) the bits in the mask as numbers, plus code_magic
//   prefers_tables          whether look_up is faster than with_magic
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/integer_rows.hpp"
#include "kernels/linear/quantized_groups.hpp"
#include "kernels/linear/scaled_terms.hpp"
#include "kernels/linear/tiles.hpp"

namespace {

// Says how the exact sums of groups become terms of the results. zeros is [groups][64], or null if the codes of
// all outputs have the common zero.
struct IntegerTerms : ScaledTerms {
  const float *zeros;
  RowTerms rows;
};

template <class Quads>
struct IntegerTiles {
  using A = float;
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_fold;
  static constexpr std::size_t most_rows = Quads::most_rows, blocks_of_one_row = 1;
  static constexpr std::size_t vectors_of(std::size_t rows) {
    return tile_vectors<A>(rows * Quads::sum_registers);
  }
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  struct Mode {};  // the products need no mode of the processor

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<typename Quads::X, std::uint8_t, float> &tile, IntegerTerms terms,
      std::size_t inputs, bool first, Prefetch &fetch) {
    static_assert(blocks == 1);
    constexpr std::size_t vectors = vectors_of(rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const typename Quads::X *x = tile.x;
      const std::uint8_t *codes = tile.w + v * 4;
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      PassOfPrefetch<16> prefetch(fetch, inputs);
      for (std::size_t begin = 0, g = 0; begin < inputs; begin += terms.fold, ++g) {
        const std::size_t end = inputs - begin < terms.fold ? inputs : begin + terms.fold;
        typename Quads::Sums sum[rows][vectors];
        unroll_pairs<rows, vectors>([&](auto r, auto j) __attribute__((always_inline)) {
          sum[r][j] = Quads::start(terms.rows.starts[g * rows + r]);
        });
        const auto add = [&](const CodeWords(&of)[vectors]) __attribute__((always_inline)) {
          typename Quads::Weights weights[vectors];
          unroll<vectors>([&](auto j) __attribute__((always_inline)) { weights[j] = Quads::weights(of[j]); });
          unroll_pairs<rows, vectors>([&](auto r, auto j) __attribute__((always_inline)) {
            sum[r][j] = Quads::add(sum[r][j], weights[j], x + r * 4);
          });
          x += rows * 4;
        };
        for (std::size_t k = begin; k < end; k += Weights::inputs, codes += 4 * block) {
          prefetch.step(k);
          CodeWords of[vectors];
          unroll<vectors>([&](auto j) __attribute__((always_inline)) {
            of[j] = load_words(codes + j * S::width * 4);
          });
          if constexpr (Weights::inputs == 4) {
            add(of);
          } else {
            CodeWords half[vectors];
            const CodeWords low(0x0f0f0f0f);
            unroll<vectors>([&](auto j) __attribute__((always_inline)) { half[j] = of[j] & low; });
            add(half);
            unroll<vectors>([&](auto j) __attribute__((always_inline)) { half[j] = (of[j] >> 4) & low; });
            add(half);
          }
        }
        finish<rows, vectors>(terms, sum, g, v, tile.sums);
      }
    }
  }

 private:
  template <std::size_t rows, std::size_t vectors>
  [[gnu::always_inline]] static void finish(const IntegerTerms &terms,
                                            const typename Quads::Sums (&sum)[rows][vectors], std::size_t g,
                                            std::size_t n, float *sums) {
    const float *const steps = terms.rows.steps + g * rows, *const x_sums = terms.rows.sums + g * rows;
    batch p[rows][vectors];
    unroll_pairs<rows, vectors>([&](auto r, auto j)
                                    __attribute__((always_inline)) { p[r][j] = Quads::numbers(sum[r][j]); });
    if (terms.zeros) {
      // The result is an integer below 2^24, so this is exact.
      unroll_pairs<rows, vectors>([&](auto r, auto j) __attribute__((always_inline)) {
        const batch zero = S::load(terms.zeros + g * block + n + j * S::width);
        p[r][j] = S::fnma(zero, batch(x_sums[r]), p[r][j]);
      });
    }
    unroll<rows>([&](auto r) __attribute__((always_inline)) {
      const batch step(steps[r]);
      unroll<vectors>([&](auto j) __attribute__((always_inline)) { p[r][j] = p[r][j] * step; });
    });
    terms.add(
        p, g, n, sums, [&](std::size_t r) __attribute__((always_inline)) {
          return batch(x_sums[r]) * batch(steps[r]);
        });
  }
};

}  // namespace
