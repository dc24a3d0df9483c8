// Packs rows and weights of linear layers as AMX tiles of bf16.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "call/linear_call.hpp"
#include "contract/types.hpp"
#include "isa/amx/bf16_operands.hpp"
#include "isa/amx/linear_products.hpp"
#include "isa/amx/tiles.hpp"
#include "kernels/linear/weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

inline constexpr std::size_t round_up_to(std::size_t unit, std::size_t n) {
  return (n + unit - 1) / unit * unit;
}

// Holds a block of rows as [16 rows][32 inputs][row][input]. Missing rows and inputs are 0.
class RowTiles {
 public:
  RowTiles(const rapt::LinearCall &call, float *workspace)
      : call_(call),
        o_(call.options),
        memory_(reinterpret_cast<rapt::BF16 *>(workspace)),
        padded_(round_up_to(amx_k32, o_.in_features)) {}

  // Packs the rows of a task, unless the task before had the same rows.
  void load(const rapt::LinearTask &task) {
    if (is_loaded_ && task.first_row == first_) return;
    is_loaded_ = true;
    first_ = task.first_row;
    for (std::size_t r = 0; r < task.rows; r += amx_rows) {
      const std::size_t left = task.rows - r;
      pack(first_ + r, left < amx_rows ? left : amx_rows, memory_ + r * padded_);
    }
  }

  // Returns the tile of the 16 rows from `row` on and the 32 inputs from `input` on. Others of these rows follow.
  const rapt::BF16 *tile(std::size_t row, std::size_t, std::size_t input) const {
    return memory_ + row * padded_ + input * amx_rows;
  }

 private:
  [[gnu::noinline, gnu::flatten]] void pack(std::size_t first, std::size_t rows, rapt::BF16 *to) const {
    const auto row = [&](std::size_t i) { return call_.x_at<rapt::BF16>(first + i); };
    if (o_.x_strides.column == 1) return pack_16_rows(rows, o_.in_features, row, to);
    for (std::size_t i = 0; i < amx_rows; ++i) {
      const rapt::BF16 *const from = i < rows ? row(i) : to;
      for (std::size_t k = 0; k < padded_; ++k) {
        const bool exists = i < rows && k < o_.in_features;
        to[k / amx_k32 * amx_elements + i * amx_k32 + k % amx_k32] =
            exists ? from[o_.x_strides.column * static_cast<std::ptrdiff_t>(k)] : rapt::BF16{};
      }
    }
  }

  const rapt::LinearCall &call_;
  const rapt_linear_options &o_;
  rapt::BF16 *memory_;
  std::size_t padded_, first_ = 0;
  bool is_loaded_ = false;
};

// Weights of a block that AMX can load as four tiles of 16 outputs. The rows of a tile are `row_bytes` apart, and the
// tile of the next outputs is `pitch` elements further. The next inputs follow.
struct PackedTiles {
  using Element = rapt::BF16;
  static constexpr std::size_t row_bytes = 2 * rapt::linear_block * sizeof(Element), pitch = 2 * amx_rows;
};
struct CompactTiles {
  using Element = rapt::BF16;
  static constexpr std::size_t row_bytes = amx_row_bytes, pitch = amx_elements;
};

// Finds the weights of a block of outputs and a group of inputs: as they are packed, or in scratch.
class TilesOfWeights : public WeightGroups<rapt::BF16, TilesByAmx> {
 public:
  TilesOfWeights(const rapt::LinearCall &call, float *scratch, const RowTiles &rows)
      : WeightGroups(call, scratch, rows), scratch_(reinterpret_cast<rapt::BF16 *>(scratch)) {}

  // Calls f(kind, weights, 0), like WeightGroups. Weights that AMX cannot load as they are go to scratch. Loading a row
  // that crosses a cache line would take six times as long.
  template <class F>
  RAPT_INNER void use(std::size_t output, std::size_t, std::size_t input, std::size_t inputs, std::size_t,
                      F f) {
    if (!o_.packed_w) {
      pack(output, input, inputs, scratch_);
      return f(CompactTiles{}, static_cast<const rapt::BF16 *>(scratch_), std::size_t{0});
    }
    const rapt::BF16 *from = packed(output, input);
    const std::size_t padded = round_up_to(amx_k32, inputs);
    if (inputs != padded || reinterpret_cast<std::uintptr_t>(from) % amx_row_bytes != 0) {
      copy(from, inputs, padded, scratch_);
      from = scratch_;
    }
    f(PackedTiles{}, from, std::size_t{0});
  }

 private:
  // Copies the packed weights of a block, and sets those from `inputs` to `end` to 0. Memory may have any bits
  // there.
  [[gnu::noinline, gnu::flatten]] static void copy(const rapt::BF16 *from, std::size_t inputs,
                                                   std::size_t end, rapt::BF16 *to) {
    for (std::size_t k = 0; k < end; k += 2) {
      const int exist = k + 1 < inputs ? -1 : k < inputs ? 0xffff : 0;
      for (std::size_t n = 0; n < block; n += amx_rows, from += amx_k32, to += amx_k32) {
        const __m512i v = exist == 0 ? _mm512_setzero_si512() : _mm512_loadu_si512(from);
        _mm512_storeu_si512(to, _mm512_and_si512(v, _mm512_set1_epi32(exist)));
      }
    }
  }

  // Packs a block as [32 inputs][16 outputs][pair of inputs][output]. The last output replaces missing ones.
  [[gnu::noinline, gnu::flatten]] void pack(std::size_t output, std::size_t input, std::size_t inputs,
                                            rapt::BF16 *to) const {
    const std::size_t outputs = o_.out_features - output, last = outputs - 1;
    if (o_.w_strides.column == 1) {
      return pack_queries(
          block / amx_rows, inputs, false,
          [&](std::size_t n) { return call_.w_at<rapt::BF16>(output + (n < last ? n : last), input); }, to);
    }
    for (std::size_t k = 0; k < inputs; k += amx_k32) {
      for (std::size_t n = 0; n < block; n += amx_rows, to += amx_elements) {
        const std::size_t left = outputs > n ? outputs - n : 0;
        const auto load = [&](std::size_t of) {
          return of < inputs ? column(output + n, left, input + of) : _mm512_setzero_si512();
        };
        for (std::size_t pair = 0; pair < amx_rows; ++pair) {
          const __m512i low = load(k + 2 * pair), high = load(k + 2 * pair + 1);
          _mm512_storeu_si512(to + pair * amx_k32, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
        }
      }
    }
  }
  // Loads the weights of an input and up to 16 outputs, each in the lower half of a word.
  __m512i column(std::size_t output, std::size_t outputs, std::size_t input) const {
    const rapt::BF16 *const from = call_.w_at<rapt::BF16>(output, input);
    const std::size_t count = outputs < amx_rows ? outputs : amx_rows;
    if (o_.w_strides.row == 1) {
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << count) - 1), from));
    }
    alignas(64) std::uint32_t words[amx_rows] = {};
    for (std::size_t i = 0; i < count; ++i) {
      words[i] = from[o_.w_strides.row * static_cast<std::ptrdiff_t>(i)].bits;
    }
    return _mm512_load_si512(words);
  }

  rapt::BF16 *scratch_;
};

}  // namespace
