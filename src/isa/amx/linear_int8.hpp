// Computes linear layers in i8 arithmetic with AMX.
//
// AMX multiplies 64 inputs at a time, so that a group of fewer inputs is filled up with zeros. Codes become signed
// bytes in scratch, because no start of a sum then needs to take their zero off.
//
// Nothing overlaps with anything else. 16 rows, 64 outputs and a group of 32 inputs take on a 3.9 GHz core
//
//   products with loads of tiles   23 ns
//   stores of the integer sums     17 ns
//   terms of the results           27 ns
//
// so that groups of 32 inputs reach at most 15 % of the peak of AMX.
//
// Variants that lost, 256 rows with 4096 inputs and outputs         | groups of 32 | a row
// sums of two groups at a time, results in registers                | + 0 to 6 %   | + 0 to 4 %
// sums that are stored under the products of the next 16 rows       | 0            | 0 to + 3 %
// sums that begin with the bits of a float and need no conversion   | + 10 %, alone |
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "call/linear_call.hpp"
#include "isa/amx/linear_fetches.hpp"
#include "isa/amx/linear_products.hpp"
#include "isa/amx/tiles.hpp"
#include "isa/avx512/codes.hpp"
#include "isa/avx512/simd.hpp"
#include "kernels/kernels.hpp"
#include "kernels/linear/linear_in_i8.hpp"
#include "kernels/linear/rounded_rows.hpp"
#include "kernels/linear/ways.hpp"
#include "kernels/vector/inner.hpp"
#include "machine/questions.hpp"

namespace {

// Says where a tile of 16 rows has which input: at [group][64 inputs][row][input]. Inputs that do not exist are 0.
struct TilesOfRows {
  using X = std::int8_t;
  static constexpr std::size_t least_rows = amx_rows, most_rows = amx_rows;
  static constexpr int byte_bias = 0;  // sums begin with 0

  explicit TilesOfRows(const rapt_linear_options &o)
      : inputs(o.in_features),
        sum_group(rapt::sum_group_of(o)),
        steps((sum_group + amx_row_bytes - 1) / amx_row_bytes) {
    row_bytes = rapt::sum_groups_of(o) * steps * amx_row_bytes;
  }

  std::size_t place(std::size_t row, std::size_t, std::size_t input) const {
    return row * row_bytes + input / sum_group * steps * (amx_rows * amx_row_bytes);
  }
  template <std::size_t height>
  void put(const std::int8_t *integers, std::size_t i, X *tile) const {
    static_assert(height == amx_rows);
    tile += i * amx_row_bytes;
    for (std::size_t begin = 0; begin < inputs; begin += sum_group) {
      const std::size_t end = inputs - begin < sum_group ? inputs : begin + sum_group;
      for (std::size_t s = 0, k = begin; s < steps;
           ++s, k += amx_row_bytes, tile += amx_rows * amx_row_bytes) {
        const std::size_t left = k < end ? end - k : 0;
        const __mmask64 exist = left < amx_row_bytes ? (__mmask64{1} << left) - 1 : ~__mmask64{0};
        _mm512_storeu_si512(tile, _mm512_maskz_loadu_epi8(exist, integers + k));
      }
    }
  }

  std::size_t inputs, sum_group, steps, row_bytes = 0;
};

using RowsByAmx = RoundedRows<TilesOfRows>;

// The scratch has the integer sums of a group, before they become terms of the results. The codes of these sums are
// less by `bias`.
struct TermsByAmx : IntegerTerms {
  std::int32_t *scratch;
  float bias;
};

struct SignedBytes {
  using Element = std::int8_t;
  static constexpr std::size_t inputs = 4;
};

// Finds codes like CodeGroups, as signed bytes [inputs / 4][64][4].
class SignedGroups : public CodeGroups<RowsByAmx> {
 public:
  static constexpr std::size_t block = rapt::linear_block;

  SignedGroups(const rapt::LinearCall &call, float *scratch, const RowsByAmx &rows)
      : CodeGroups(call, scratch, rows),
        bytes_(reinterpret_cast<std::int8_t *>(scratch)),
        sums_(reinterpret_cast<std::int32_t *>(bytes_ + (rapt::linear_sum_group + amx_row_bytes) * block)) {}

  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t, std::size_t input, std::size_t inputs,
                      std::size_t rows, F f) {
    const std::uint8_t *const codes = groups_.load(output, input, inputs, rows);
    const rapt::QuantizedWeights &weights = groups_.weights();
    const char zero = static_cast<char>(groups_.zeros() ? bias() : weights.common_zero_of_integers());
    with_kind_of_integers(weights, [&](auto kind) { to_bytes<decltype(kind)>(codes, inputs, zero); });
    f(SignedBytes{}, static_cast<const std::int8_t *>(bytes_), std::size_t{0});
  }

  TermsByAmx terms(std::size_t r, std::size_t height, std::size_t input) const {
    return {CodeGroups::terms(r, height, input), sums_, static_cast<float>(bias())};
  }

 private:
  // What is subtracted from codes with zeros, so that they are signed bytes.
  int bias() const { return groups_.weights().is_bytes() ? 128 : 0; }

  template <class Kind>
  [[gnu::noinline, gnu::flatten]] void to_bytes(const std::uint8_t *codes, std::size_t inputs, char zero) {
    const __m512i zeros = _mm512_set1_epi8(zero);
    std::int8_t *to = bytes_;
    for (std::size_t k = 0; k < inputs; k += Kind::inputs, codes += Kind::bytes) {
      unroll<Kind::inputs / 4>([&](auto q) RAPT_INNER {
        for (std::size_t i = 0; i < 4 * block; i += amx_row_bytes) {
          const __m512i quad = Kind::template quad<CodeSimd, q>(codes + Kind::words_of(i / 4), table_);
          _mm512_store_si512(to + q * (4 * block) + i, _mm512_sub_epi8(quad, zeros));
        }
      });
      to += Kind::inputs * block;
    }
  }

  std::int8_t *bytes_;
  std::int32_t *sums_;
};

struct IntegerTilesByAmx : TilesByAmx {
  using S = simd<float>;
  using batch = S::batch;
  static constexpr std::size_t block = rapt::linear_block, group = rapt::linear_sum_group;

  template <class Weights, std::size_t rows, std::size_t blocks>
  [[gnu::noinline, gnu::flatten]] static void multiply(
      const TileOperands<std::int8_t, std::int8_t, float> &tile, const TermsByAmx &terms, std::size_t inputs,
      bool first, Prefetch &fetch) {
    static_assert(rows == amx_rows && blocks == 1);
    const std::size_t groups = (inputs + terms.sum_group - 1) / terms.sum_group,
                      steps = (terms.sum_group + amx_row_bytes - 1) / amx_row_bytes;
    LinesToFetch lines = lines_of_pass(fetch, groups * steps);
    LinearProducts<std::int8_t> products;
    for (std::size_t g = 0; g < groups; ++g) {
      const WeightTiles<std::int8_t> weights{tile.w + g * terms.sum_group * block, 4 * block, 4 * amx_rows};
      products.multiply(tile.x + g * steps * (amx_rows * amx_row_bytes), weights, steps, true, terms.scratch,
                        lines, {});
      lines.at += steps * lines.per_step * bytes_of_line;
      // These products have stored the sums of those before.
      if (g > 0) add_terms(terms, g - 1, first && g == 1, tile.sums);
    }
    products.flush();
    add_terms(terms, groups - 1, first && groups == 1, tile.sums);
  }

 private:
  // Adds the terms of group g. If `fresh`, the results count as 0.
  static void add_terms(const TermsByAmx &terms, std::size_t g, bool fresh, float *to) {
    if (terms.zeros || terms.offsets) {
      add_group<true>(terms, g, fresh, to);
    } else {
      add_group<false>(terms, g, fresh, to);
    }
  }
  template <bool has_options>
  [[gnu::noinline, gnu::flatten]] static void add_group(const TermsByAmx &terms, std::size_t g, bool fresh,
                                                        float *to) {
    const std::int32_t *sum = terms.scratch;
    const float *const steps = terms.rows.steps + g * amx_rows, *const x_sums =
                                                                    terms.rows.sums + g * amx_rows;
    batch step[amx_rows];
    unroll<amx_rows>([&](std::size_t r) RAPT_INNER { step[r] = batch(steps[r]); });
    for (std::size_t n = 0; n < block; n += S::width, sum += amx_rows * S::width) {
      const std::size_t at = g * block + n;
      batch scale[1], offset[1];
      terms.scales.load(g, n, scale);
      if (has_options && terms.offsets) terms.offsets.load(g, n, offset);
      const batch zero =
          has_options && terms.zeros ? S::load(terms.zeros + at) - batch(terms.bias) : batch(0.0f);
      unroll<amx_rows>([&](std::size_t r) RAPT_INNER {
        float *const result = to + r * block + n;
        batch p(_mm512_cvtepi32_ps(_mm512_load_si512(sum + r * S::width)));
        batch t = fresh ? batch(0.0f) : S::load(result);
        if constexpr (has_options) {
          // The difference is an integer below 2^24, so this is exact.
          if (terms.zeros) p = S::fnma(zero, batch(x_sums[r]), p);
        }
        t = S::fma(scale[0], p * step[r], t);
        if constexpr (has_options) {
          if (terms.offsets) t = S::fma(batch(x_sums[r]) * step[r], offset[0], t);
        }
        S::store(result, t);
      });
    }
  }
};

struct I8LayerByAmx {
  using A = float;
  using Tiles = IntegerTilesByAmx;
  using Rows = RowsByAmx;
  using Weights = SignedGroups;
  using Guard = NoGuard;
};

void linear_of_integers_by_amx(const rapt::LinearCall *call, std::size_t first, std::size_t last,
                               void *workspace) {
  TileRegisters registers;
  if (!goes_in_tiles_i8(call->options) || !registers.configure()) {
    return rapt_kernels_without_tiles()->i8.linear_in_i8(call, first, last, workspace);
  }
  linear_tasks<I8LayerByAmx>(call, first, last, workspace);
}

}  // namespace
