// Multiplies two rows of integers or more by the codes of a block of 64 outputs with USMMLA. One instruction
// multiplies 8 inputs of 2 outputs by 2 rows: twice as many products as USDOT. Sums of a group are exact.
//
// USMMLA needs 8 inputs of an output together, and packed codes have 4. So codes are first put in that order in
// scratch. All tiles of a task use them there. Counted in the arithmetic pipelines, for 8 inputs of 4 outputs:
//
//   instructions that multiply, and others   | 1 row | 2 rows | 4 rows | 6 rows | 64 rows
//   USDOT                                    | 2     | 4      | 8      | 12     | 128
//   USMMLA, each tile orders bytes           | 2 + 2 | 2 + 2  | 4 + 2  | 6 + 2  | 64 + 22
//   USMMLA, bytes are ordered once           | 2 + 2 | 2 + 2  | 4 + 2  | 6 + 2  | 64 + 2
//
// Codes of 4 bits need 2 more instructions than bytes, each time that they are ordered.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "isa/neon_i8mm/codes.hpp"
#include "kernels/linear/linear_in_i8.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Codes as bytes, [inputs / 8][64][8].
struct CodesOfEights {
  using Element = std::uint8_t;
  static constexpr std::size_t inputs = 8;
};

struct MatrixTiles : IntegerTiles<I8mmCodes> {
  // Rows are multiplied in pairs. If their number is odd, the last one's partner is whatever follows it in
  // memory, and its sums are not used.
  static constexpr std::size_t pairs_of(std::size_t rows) { return (rows + 1) / 2; }
  static constexpr std::size_t vectors_of(std::size_t rows) { return tile_vectors<A>(2 * pairs_of(rows)); }
  static constexpr std::size_t passes(std::size_t rows) {
    return rows == 1 ? IntegerTiles::passes(1) : block / (S::width * vectors_of(rows));
  }

  template <class Weights, std::size_t rows, std::size_t blocks>
  static void multiply(const TileOperands<std::int8_t, std::uint8_t, float> &tile, IntegerTerms terms,
                       std::size_t inputs, bool first, Prefetch &fetch) {
    if constexpr (std::is_same_v<Weights, CodesOfEights>) {
      multiply_eights<rows>(tile, terms, inputs, first, fetch);
    } else if constexpr (rows == 1) {
      IntegerTiles::multiply<Weights, 1, blocks>(tile, terms, inputs, first, fetch);
    } else {
      __builtin_unreachable();  // MatrixCodes
    }
  }

 private:
  template <std::size_t rows>
  [[gnu::noinline, gnu::flatten]] static void multiply_eights(
      const TileOperands<std::int8_t, std::uint8_t, float> &tile, IntegerTerms terms, std::size_t inputs,
      bool first, Prefetch &fetch) {
    constexpr std::size_t vectors = vectors_of(rows), pairs = pairs_of(rows);
    for (std::size_t v = 0; v < block; v += vectors * S::width) {
      const std::int8_t *x = tile.x;
      const std::uint8_t *codes = tile.w + v * 8;
      if (first) ScaledTerms::clear<rows, vectors>(v, tile.sums);
      PassOfPrefetch<16> prefetch(fetch, inputs);
      for (std::size_t begin = 0, g = 0; begin < inputs; begin += terms.sum_group, ++g) {
        const std::size_t end = inputs - begin < terms.sum_group ? inputs : begin + terms.sum_group;
        // The sums of outputs 0 and 1 of a vector, then of 2 and 3. Each has both rows of its first output,
        // then of its second one.
        int32x4_t sum[pairs][vectors][2];
        unroll_pairs<pairs, vectors>([&](auto p, std::size_t j) RAPT_INNER {
          sum[p][j][0] = sum[p][j][1] = start<p, rows>(terms.rows.starts + g * rows);
        });
        for (std::size_t k = begin; k < end; k += 8) {
          prefetch.step(k);
          int8x16_t row[pairs];
          unroll<pairs>([&](std::size_t p) RAPT_INNER { row[p] = vld1q_s8(x + 16 * p); });
          unroll_pairs<vectors, 2>([&](std::size_t j, std::size_t half) RAPT_INNER {
            const uint8x16_t of = vld1q_u8(codes + j * 32 + half * 16);
            unroll<pairs>([&](std::size_t p)
                              RAPT_INNER { sum[p][j][half] = add_products(sum[p][j][half], of, row[p]); });
          });
          x += 8 * rows;
          codes += 8 * block;
        }
        I8mmCodes::Sums of_row[rows][vectors];
        unroll_pairs<rows, vectors>([&](std::size_t r, std::size_t j) RAPT_INNER {
          const auto &of = sum[r / 2][j];
          of_row[r][j] = r % 2 == 0 ? vuzp1q_s32(of[0], of[1]) : vuzp2q_s32(of[0], of[1]);
        });
        finish<rows, vectors>(terms, of_row, g, v, tile.sums);
      }
    }
  }

  // Returns the starts of pair p in turns.
  template <std::size_t p, std::size_t rows>
  static int32x4_t start(const std::int32_t *starts) {
    if constexpr (2 * p + 1 == rows) return vdupq_n_s32(starts[2 * p]);
    const int32x2_t both = vld1_s32(starts + 2 * p);
    return vcombine_s32(both, both);
  }

  // This is inline assembly, because gcc 12 and its assembler offer the instruction only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  static int32x4_t add_products(int32x4_t s, uint8x16_t codes, int8x16_t x) {
    __asm__(".arch armv8.2-a+i8mm\n\tusmmla %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(codes), "w"(x));
    return s;
  }
};

using MatrixRows = RoundedRows<QuadsOfRows<I8mmCodes>>;

// Puts the codes in order for tasks whose rows are multiplied in pairs.
class MatrixCodes : public CodeGroups<MatrixRows> {
 public:
  static constexpr std::size_t block = rapt::linear_block;

  MatrixCodes(const rapt::LinearCall &call, float *scratch, const MatrixRows &rows)
      : CodeGroups(call, scratch, rows), eights_(reinterpret_cast<std::uint8_t *>(scratch)) {}

  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t blocks, std::size_t input, std::size_t inputs,
                      std::size_t rows, F f) {
    if (!orders_codes_for_matrices(rows)) return CodeGroups::use(output, blocks, input, inputs, rows, f);
    const std::uint8_t *const codes = groups_.load(output, input, inputs, rows);
    with_kind_of_integers(groups_.weights(), [&](auto kind) {
      if constexpr (kind.inputs == 4) {
        order_bytes(codes, inputs, eights_);
      } else {
        order<decltype(kind)>(codes, inputs, table_, eights_);
      }
    });
    f(CodesOfEights{}, static_cast<const std::uint8_t *>(eights_), std::size_t{0});
  }

 private:
  [[gnu::noinline, gnu::flatten]] static void order_bytes(const std::uint8_t *codes, std::size_t inputs,
                                                          std::uint8_t *to) {
    for (std::size_t k = 0; k < inputs; k += 8, codes += 8 * block, to += 8 * block) {
      // If the second quad does not exist, x is 0 there, and any codes do.
      const std::uint8_t *const next = inputs - k > 4 ? codes + 4 * block : codes;
      unroll<block / 4>([&](std::size_t i) RAPT_INNER {
        store(to + 32 * i, load_words(codes + 16 * i), load_words(next + 16 * i));
      });
    }
  }
  template <class Kind>
  [[gnu::noinline, gnu::flatten]] static void order(const std::uint8_t *codes, std::size_t inputs,
                                                    const std::uint8_t *table, std::uint8_t *to) {
    for (std::size_t k = 0; k < inputs; k += Kind::inputs, codes += Kind::bytes) {
      unroll<Kind::inputs / 8>([&](auto e) RAPT_INNER {
        unroll<block / 4>([&](std::size_t i) RAPT_INNER {
          store(to + 32 * i, Kind::template quad<I8mmCodes, 2 * e>(codes + Kind::words_of(4 * i), table),
                Kind::template quad<I8mmCodes, 2 * e + 1>(codes + Kind::words_of(4 * i), table));
        });
        to += 8 * block;
      });
    }
  }
  // Stores both quads of four outputs.
  static void store(std::uint8_t *to, uint32x4_t first, uint32x4_t second) {
    vst1q_u8(to, vreinterpretq_u8_u32(vzip1q_u32(first, second)));
    vst1q_u8(to + 16, vreinterpretq_u8_u32(vzip2q_u32(first, second)));
  }

  std::uint8_t *eights_;
};

struct MatrixLayer : I8Layer<I8mmCodes> {
  using Tiles = MatrixTiles;
  using Weights = MatrixCodes;
};

}  // namespace
