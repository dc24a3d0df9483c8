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
// A class for small codes (isa/x86/small_codes.hpp) has, in place of add,
//
//   Pairs                sums of products of two inputs, in 16 bits, of a vector of outputs
//   pairs<r>(weights, quad)     those of row r's four integers
//   sum_of_pairs(a, b)   the sums of two of them
//   add_pairs(s, pairs)  returns s plus the pairs of each output
//   vectors_of(rows)     vectors of outputs of a tile of so many rows
//
// For number_tiles.hpp, it also has
//
//   look_up(table, codes)   the elements of a table of 16 that the low 4 bits of each lane name
//   with_magic<mask>(codes) the bits in the mask as numbers, plus code_magic
//   prefers_tables          whether look_up is faster than with_magic
//   signed_bits<shift, j>(w)    bit 7 of byte j of each word as the highest bit, and the other 7 bits shifted so far up
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear/quantized_groups.hpp"
#include "kernels/linear/rounded_rows.hpp"
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

// Whether a level multiplies small codes in pairs, whose sums have 16 bits.
template <class Quads>
concept AddsPairs = requires {
  typename Quads::Pairs;
};
// Returns how many such sums of codes of so many bits, times -128, fit in 16 bits.
constexpr std::size_t quads_of_pairs(unsigned bits) { return 32767 / (2 * 128 * ((1U << bits) - 1)); }

template <class Quads>
struct IntegerTiles : TileTraits {
  using A = float;
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_sum_group;
  static constexpr std::size_t most_rows = Quads::most_rows;
  static constexpr std::size_t vectors_of(std::size_t rows) {
    if constexpr (AddsPairs<Quads>) return Quads::vectors_of(rows);
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
    constexpr std::size_t vectors = vectors_of(rows);
    if constexpr (Weights::bits == 2) {
      if (terms.share_bytes()) return multiply_shared<Weights, rows>(tile, terms, inputs, first, fetch);
    }
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const typename Quads::X *x = tile.x;
      const std::uint8_t *codes = tile.w + Weights::words_of(v);
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      PassOfPrefetch<16> prefetch(fetch, inputs);
      for (std::size_t begin = 0, first_group = 0; begin < inputs; first_group += Weights::groups) {
        const std::size_t sum_group = Weights::groups * terms.sum_group,
                          end = inputs - begin < sum_group ? inputs : begin + sum_group;
        // A unit that is larger than a group is all that the inner loops see.
        unroll<Weights::groups>([&](auto part) RAPT_INNER {
          constexpr bool is_last = part == Weights::groups - 1;
          const std::size_t g = first_group + part;
          typename Quads::Sums sum[rows][vectors];
          unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
            sum[r][j] = Quads::start(terms.rows.starts[g * rows + r]);
          });
          std::size_t k = begin;
          constexpr std::size_t units = units_together<Weights>();
          if constexpr (units > 1) {
            for (constexpr std::size_t step = units * Weights::inputs; end - k >= step; k += step) {
              unroll<(step + 15) / 16>([&](std::size_t i) RAPT_INNER { prefetch.step(k + i * 16); });
              add_units<Weights, units, part>(codes, x, terms.table, sum);
              codes += units * Weights::bytes;
              x += step * rows;
            }
          }
          for (; k < end; k += Weights::inputs) {
            if (is_last)
              unroll<(Weights::inputs + 15) / 16>([&](std::size_t i)
                                                      RAPT_INNER { prefetch.step(k + i * 16); });
            add_units<Weights, 1, part>(codes, x, terms.table, sum);
            if (is_last) codes += Weights::bytes;
            x += Weights::inputs / Weights::groups * rows;
          }
          finish<rows, vectors>(terms, sum, g, v, tile.sums);
        });
        begin = end;
      }
    }
  }

 protected:
  // Returns how many units of codes are added up before their sum is widened, at least 1. More than 32 inputs would
  // gain little, and many groups have no more.
  template <class Weights>
  static constexpr std::size_t units_together() {
    if constexpr (AddsPairs<Quads>) {
      constexpr std::size_t most = quads_of_pairs(Weights::bits) * 4,
                            units = (most < 32 ? most : 32) / Weights::inputs;
      return units > 1 && Weights::groups == 1 ? units : 1;
    }
    return 1;
  }

  // The inputs of a unit that are in one group of the sum, in quads.
  template <class Weights>
  static constexpr std::size_t quads_of_unit = Weights::inputs / 4 / Weights::groups;

  // Adds the products of a group's part of some units, whose codes are at `codes` for the first vector of outputs.
  template <class Weights, std::size_t units, std::size_t group_of_unit, std::size_t rows,
            std::size_t vectors>
  RAPT_INNER static void add_units(const std::uint8_t *codes, const typename Quads::X *x,
                                   const std::uint8_t *table, typename Quads::Sums (&sum)[rows][vectors]) {
    // The codes of `together` vectors fit in the registers next to the sums of a tile. Those of 6 bits have parts on
    // the way: 2 vectors have 1.07 of the speed with one row on AVX2. 5 and 3 bits gain nothing.
    constexpr std::size_t most = AddsPairs<Quads> && Weights::bits == 6 ? 2 : 4;
    constexpr std::size_t together = vectors < most ? vectors : most;
    unroll<vectors / together>([&](auto part) RAPT_INNER {
      if constexpr (AddsPairs<Quads>) {
        typename Quads::Pairs pairs[rows][together];
        add_pairs<Weights, units, group_of_unit, part * together>(codes, x, table, pairs, sum);
      } else {
        unroll<units * quads_of_unit<Weights>>([&](auto n) RAPT_INNER {
          typename Quads::Weights weights[together];
          load_quads<Weights, n, group_of_unit, part * together>(codes, table, weights);
          const typename Quads::template Quad<rows> quad(x + n * (4 * rows));
          unroll_pairs<rows, together>([&](auto r, std::size_t j) RAPT_INNER {
            auto &of = sum[r][part * together + j];
            of = Quads::template add<r>(of, weights[j], quad);
          });
        });
      }
    });
  }
  // As many pairs as cannot overflow are added up in 16 bits.
  template <class Weights, std::size_t units, std::size_t group_of_unit, std::size_t first, class Pairs,
            std::size_t rows, std::size_t together, std::size_t vectors>
  RAPT_INNER static void add_pairs(const std::uint8_t *codes, const typename Quads::X *x,
                                   const std::uint8_t *table, Pairs (&pairs)[rows][together],
                                   typename Quads::Sums (&sum)[rows][vectors]) {
    constexpr std::size_t quads = units * quads_of_unit<Weights>, most = quads_of_pairs(Weights::bits);
    unroll<quads>([&](auto n) RAPT_INNER {
      typename Quads::Weights weights[together];
      load_quads<Weights, n, group_of_unit, first>(codes, table, weights);
      const typename Quads::template Quad<rows> quad(x + n * (4 * rows));
      unroll_pairs<rows, together>([&](auto r, std::size_t j) RAPT_INNER {
        const auto products = Quads::template pairs<r>(weights[j], quad);
        pairs[r][j] = n % most == 0 ? products : Quads::sum_of_pairs(pairs[r][j], products);
      });
      if constexpr (n % most == most - 1 || n == quads - 1) {
        unroll_pairs<rows, together>([&](std::size_t r, std::size_t j) RAPT_INNER {
          sum[r][first + j] = Quads::add_pairs(sum[r][first + j], pairs[r][j]);
        });
      }
    });
  }
  // Loads quad n of the codes of some units.
  template <class Weights, std::size_t n, std::size_t group_of_unit, std::size_t first, std::size_t together>
  RAPT_INNER static void load_quads(const std::uint8_t *codes, const std::uint8_t *table,
                                    typename Quads::Weights (&weights)[together]) {
    constexpr std::size_t quads = quads_of_unit<Weights>, q = group_of_unit * quads + n % quads;
    codes += n / quads * Weights::bytes;
    unroll<together>([&](std::size_t j) RAPT_INNER {
      const std::uint8_t *const at = codes + Weights::words_of((first + j) * S::width);
      weights[j] = Quads::weights(Weights::template quad<Quads, q>(at, table));
    });
  }

  // Multiplies where scales and offsets share their bytes, and a group is a unit. The sums of a vector stay in
  // registers.
  template <class Weights, std::size_t rows>
  RAPT_INNER static void multiply_shared(const TileOperands<typename Quads::X, std::uint8_t, float> &tile,
                                         const IntegerTerms &terms, std::size_t inputs, bool first,
                                         Prefetch &fetch) {
    constexpr std::size_t vectors = vectors_of(rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const typename Quads::X *x = tile.x;
      const std::uint8_t *codes = tile.w + Weights::words_of(v);
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      PassOfPrefetch<16> prefetch(fetch, inputs);
      for (std::size_t k = 0, g = 0; k < inputs; k += Weights::inputs, ++g) {
        const std::int32_t *const starts = terms.rows.starts + g * rows;
        const float *const steps = terms.rows.steps + g * rows, *const x_sums = terms.rows.sums + g * rows;
        prefetch.step(k);
        terms.add_shared<rows, vectors>(
            [&](std::size_t j, batch(&p)[rows]) RAPT_INNER {
              typename Quads::Sums sum[rows][1];
              unroll<rows>([&](std::size_t r) RAPT_INNER { sum[r][0] = Quads::start(starts[r]); });
              add_units<Weights, 1, 0>(codes + Weights::words_of(j * S::width), x, terms.table, sum);
              unroll<rows>([&](std::size_t r)
                               RAPT_INNER { p[r] = Quads::numbers(sum[r][0]) * batch(steps[r]); });
            },
            g, v, tile.sums, [&](std::size_t r) RAPT_INNER { return batch(x_sums[r]) * batch(steps[r]); });
        codes += Weights::bytes;
        x += Weights::inputs * rows;
      }
    }
  }

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
