// Multiplies a few rows of integers by the codes of a block of 64 outputs. Sums of a group are exact.
//
// Each instruction-set level defines a class Quads, which multiplies four inputs of an output at a time:
//
//   X, place(j)          type of a row's integers, and the place of input j among the four
//   inputs_together      inputs of a row that lie together in a tile: 4 or 8
//   most_rows, sum_registers    rows of a tile, and registers of a Sums
//   Sums, start(n)       sums of a vector of outputs, each beginning with n
//   low_halves(w), high_halves(w)    a code of 4 bits in each byte
//   biased(w), byte_bias codes of bytes less what the level subtracts from them
//   look_up_bytes(table, w)    the bytes of a table of 16 that bytes below 16 name
//   Weights, weights(w)  the codes of a vector of outputs, from a vector of words
//   Quad<rows>           four integers of each row, from their address
//   add<r>(s, weights, quad)    returns s plus the products of row r's four integers
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
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Says how the exact sums of groups become terms of the results. zeros is [groups][64], or null if the codes of
// all outputs have the common zero.
struct IntegerTerms : ScaledTerms {
  const std::uint8_t *zeros;
  RowTerms rows;
  const std::uint8_t *table;  // of bytes, in the order of codes
};

template <class Quads>
struct IntegerTiles : TileTraits {
  using A = float;
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_fold;
  static constexpr std::size_t most_rows = Quads::most_rows;
  static constexpr std::size_t vectors_of(std::size_t rows) {
    return tile_vectors<A>(rows * Quads::sum_registers, 16);
  }
  // Of each block, if a single row reads blocks in turn: at most a group of codes of 4 bits. Next to 8192 bytes, these
  // take .91 of the time in L2, .93 in L3 and .96 in memory. Prefetching a line of 4, 8 or 16 of the next part gains
  // up to a fifth in memory and loses up to a tenth in L3.
  static constexpr std::size_t bytes_in_turn = 16384;
  static constexpr std::size_t passes(std::size_t rows) { return block / (S::width * vectors_of(rows)); }

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<typename Quads::X, std::uint8_t, float> &tile, IntegerTerms terms,
      std::size_t inputs, bool first, Prefetch &fetch) {
    static_assert(blocks == 1);
    // The codes of `together` vectors fit in the registers next to the sums of a tile.
    constexpr std::size_t vectors = vectors_of(rows), together = vectors < 4 ? vectors : 4;
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const typename Quads::X *x = tile.x;
      const std::uint8_t *codes = tile.w + Weights::words_of(v);
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      PassOfPrefetch<16> prefetch(fetch, inputs);
      for (std::size_t begin = 0, first_group = 0; begin < inputs; first_group += Weights::groups) {
        const std::size_t fold = Weights::groups * terms.fold,
                          end = inputs - begin < fold ? inputs : begin + fold;
        // A unit that is larger than a group is all that the inner loop sees.
        unroll<Weights::groups>([&](auto h) RAPT_INNER {
          constexpr std::size_t quads = Weights::inputs / 4 / Weights::groups;
          const std::size_t g = first_group + h;
          typename Quads::Sums sum[rows][vectors];
          unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
            sum[r][j] = Quads::start(terms.rows.starts[g * rows + r]);
          });
          for (std::size_t k = begin; k < end; k += Weights::inputs) {
            if (h == 0) prefetch.step(k);
            unroll<vectors / together>([&](auto part) RAPT_INNER {
              unroll<quads>([&](auto q) RAPT_INNER {
                typename Quads::Weights weights[together];
                unroll<together>([&](std::size_t j) RAPT_INNER {
                  const std::uint8_t *const at = codes + Weights::words_of((part * together + j) * S::width);
                  weights[j] = Quads::weights(Weights::template quad<Quads, h * quads + q>(at, terms.table));
                });
                const typename Quads::template Quad<rows> quad(x + q * (4 * rows));
                unroll_pairs<rows, together>([&](auto r, std::size_t j) RAPT_INNER {
                  auto &of = sum[r][part * together + j];
                  of = Quads::template add<r>(of, weights[j], quad);
                });
              });
            });
            if (h == Weights::groups - 1) codes += Weights::bytes;
            x += 4 * quads * rows;
          }
          finish<rows, vectors>(terms, sum, g, v, tile.sums);
        });
        begin = end;
      }
    }
  }

 protected:
  // Adds the sums of a group to the sums of the tile.
  template <std::size_t rows, std::size_t vectors>
  RAPT_INNER static void finish(const IntegerTerms &terms, const typename Quads::Sums (&sum)[rows][vectors],
                                std::size_t g, std::size_t n, float *sums) {
    const float *const steps = terms.rows.steps + g * rows, *const x_sums = terms.rows.sums + g * rows;
    // The type of the scales is looked at before the vector work, which then is one piece to the compiler. Row by row,
    // with offsets before the only store, gcc keeps the sums in memory: 64 rows took 1.3 of the time.
    batch scale[vectors], p[rows][vectors];
    terms.scales.load(g, n, scale);
    unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j)
                                    RAPT_INNER { p[r][j] = Quads::numbers(sum[r][j]); });
    if (terms.zeros) {
      // The result is an integer below 2^24, so this is exact.
      unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
        const batch zero = S::load(terms.zeros + g * block + n + j * S::width);
        p[r][j] = S::fnma(zero, batch(x_sums[r]), p[r][j]);
      });
    }
    unroll<rows>([&](std::size_t r) RAPT_INNER {
      const batch step(steps[r]);
      unroll<vectors>([&](std::size_t j) RAPT_INNER { p[r][j] = p[r][j] * step; });
    });
    terms.add(p, scale, g, n, sums,
              [&](std::size_t r) RAPT_INNER { return batch(x_sums[r]) * batch(steps[r]); });
  }
};

}  // namespace
