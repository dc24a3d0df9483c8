// Turns a vector of keys into numbers, in the layout of packed keys: dimension d of all keys of a block begins at 64 d.
//
// Codes of a vector of keys are transposed four at a time, as words, before they become numbers. That takes a quarter
// of the shuffles that numbers would take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/packed_keys.hpp"
#include "contract/file_blocks.hpp"
#include "kernels/file_numbers.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/transposed.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Holds up to 256 inputs of a vector of rows: their codes, scales and fifth bits.
template <class Codes, class File>
class PackedNumbers {
 public:
  // Writes `inputs` numbers of the rows from input `first` on to `to`. row[r] is where they lie.
  template <class Fetch>
  RAPT_INNER static void write(const std::uint8_t *const *row, const ScalesApart &apart, std::size_t first,
                               std::size_t inputs, float *to, Fetch fetch) {
    const std::size_t count = inputs / File::inputs;
    PackedNumbers blocks(apart, first / File::inputs, count);
    for (std::size_t r = 0; r < width; ++r) {
      fetch(r);
      blocks.load(row[r], r, count, apart);
    }
    blocks.of_.widen(count);
    for (std::size_t b = 0; b < count; ++b) blocks.make_scales(b);
    const float *code_row[width];
    for (std::size_t r = 0; r < width; ++r) code_row[r] = blocks.codes_[r];
    for (std::size_t b = 0; b < count; b += blocks_of_square) {
      unroll<squares_of_block>([&](auto square) RAPT_INNER {
        S::each_transposed(code_row, b * words + square * width, [&](auto i, batch column) RAPT_INNER {
          constexpr std::size_t of_square = i / words, word = square * width % words + i % words;
          if (of_square == 0 || b + of_square < count) blocks.template store<word>(b + of_square, column, to);
        });
      });
    }
  }

 private:
  using S = simd<float>;
  using batch = typename S::batch;
  static constexpr std::size_t width = S::width, most_blocks = ScalesOfRows<File>::most_blocks;
  static constexpr std::size_t words = has_bytes_of_32<File> ? 8 : 4;  // of codes in a block
  static constexpr std::size_t blocks_of_square = width > words ? width / words : 1,
                               squares_of_block = words > width ? words / width : 1;
  // A code is multiplied where it lies in a word, so that its scale is divided by 2^(its lowest bit).
  static constexpr bool has_codebook = File::codebook != rapt::Codebook::none;
  static constexpr bool has_bytes = has_bytes_of_32<File> || has_codebook;
  static constexpr std::size_t places = File::has_scales_apart ? 1 : has_bytes ? 2 : 4;
  static constexpr unsigned bits_of_place = has_bytes ? 8 : 4;

  RAPT_INNER PackedNumbers(const ScalesApart &apart, std::size_t first, std::size_t count)
      : of_(apart, first, count) {}

  RAPT_INNER void load(const std::uint8_t *block, std::size_t r, std::size_t count,
                       const ScalesApart &apart) {
    of_.load(block, r, count, apart);
    for (std::size_t b = 0; b < count; ++b, block += File::bytes) {
      std::memcpy(codes_[r] + b * words, block + File::code(0).low.byte, words * sizeof(float));
      if constexpr (File::bits == 5) high_[b][r] = high_bits_of<File>(block);
    }
  }
  RAPT_INNER void make_scales(std::size_t b) {
    const batch scale = S::load(of_.scale[b]);
    // Half of e8m0's smallest number is subnormal, so that it is not divided (see `number`).
    unroll<places>(
        [&](auto p) RAPT_INNER { S::store(scales_[b][p], is_divided ? scale * batch(1 / unit<p>) : scale); });
  }
  static constexpr bool is_divided = File::scale_of == rapt::ScaleOf::d;
  template <std::size_t place>
  static constexpr float unit = static_cast<float>(1U << place * bits_of_place);

  // Returns the numbers of the codes at a place of a word, whose unsigned codes are `zero` above their integers.
  template <std::size_t place, unsigned zero, class Words>
  RAPT_INNER batch number(Words word, std::size_t b, [[maybe_unused]] std::size_t input) const {
    constexpr float of_place = unit<place>;
    constexpr int mask = ((1 << bits_of_place) - 1) << place * bits_of_place;
    batch integer = batch(Codes::template with_magic<mask>(word)) -
                    batch(magic_of_codes + static_cast<float>(zero) * of_place);
    if constexpr (File::bits == 5)
      integer = S::add_where(S::bit_set(high_[b], 1U << input), integer, batch(16 * of_place));
    if constexpr (!is_divided) integer = integer * batch(1 / of_place);
    const batch scaled = integer * S::load(scales_[b][place]);
    if constexpr (File::has_offsets) return scaled + S::load(of_.offset[b]);
    return scaled;
  }

  // Stores the numbers of a word of block b of all rows.
  template <std::size_t at>
  RAPT_INNER void store(std::size_t b, batch column, float *to) const {
    constexpr std::size_t first = at * (File::has_scales_apart ? 8 : 4);
    float *const of_block = to + b * File::inputs * rapt::packed_dim_stride;
    const auto store_at = [&](std::size_t input, batch numbers)
                              RAPT_INNER { S::store(of_block + input * rapt::packed_dim_stride, numbers); };
    const auto store_bytes = [&](auto word, std::size_t from) RAPT_INNER {
      store_at(from, number<0, 128>(word, b, from));
      store_at(from + 1, number<1, 128>(word, b, from + 1));
      const decltype(word) upper = word >> 16;
      store_at(from + 2, number<0, 128>(upper, b, from + 2));
      store_at(from + 3, number<1, 128>(upper, b, from + 3));
    };
    auto word = S::bits(column);
    using Words = decltype(word);
    if constexpr (File::has_scales_apart) {
      static constexpr IntegersOfHalves<File> table;
      const batch scale = S::load(scales_[b][0]);
      unroll<8>([&](std::size_t i) RAPT_INNER {
        store_at(first + i, integers_of_codes<Codes>(word, table) * scale);
        word = word >> 4;
      });
    } else if constexpr (has_bytes_of_32<File>) {
      store_bytes(Words(word ^ 0x80808080U), first);
    } else if constexpr (has_codebook) {
      store_bytes(Words(Codes::look_up_bytes(bytes_of_codebook<File>.bytes, Codes::low_halves(word))), first);
      store_bytes(Words(Codes::look_up_bytes(bytes_of_codebook<File>.bytes, Codes::high_halves(word))),
                  16 + first);
    } else {
      unroll<2>([&](std::size_t i) RAPT_INNER {
        const std::size_t from = first + 2 * i;
        store_at(from, number<0, File::zero>(word, b, from));
        store_at(from + 16, number<1, File::zero>(word, b, from + 16));
        store_at(from + 1, number<2, File::zero>(word, b, from + 1));
        store_at(from + 17, number<3, File::zero>(word, b, from + 17));
        word = word >> 16;
      });
    }
  }

  alignas(64) float codes_[width][most_blocks * words];
  alignas(64) float scales_[most_blocks][places][width];
  ScalesOfRows<File> of_;
  std::uint32_t high_[most_blocks][width];
};

// Writes the numbers of a vector of keys to `to`. The rows have `dim` numbers in blocks of File. `fetch` is called with
// the index of each row.
template <class Codes, class File, class Fetch>
[[gnu::noinline, gnu::flatten]] void pack_numbers(const std::uint8_t *const *row, const ScalesApart &apart,
                                                  std::size_t dim, float *to, Fetch fetch) {
  using S = simd<float>;
  constexpr std::size_t most = 256;  // whole blocks
  const std::uint8_t *at[S::width];
  for (std::size_t r = 0; r < S::width; ++r) at[r] = row[r];
  for (std::size_t d = 0; d < dim; d += most) {
    const std::size_t inputs = dim - d < most ? dim - d : most;
    if constexpr (has_scale_of_32<File>) {
      PackedNumbers<Codes, File>::write(at, apart, d, inputs, to, [&](std::size_t r) RAPT_INNER {
        if (d == 0) fetch(r);
      });
    } else {
      alignas(64) float numbers[S::width][most];
      const float *of_row[S::width];
      for (std::size_t r = 0; r < S::width; ++r) {
        if (d == 0) fetch(r);
        numbers_of_blocks<Codes, File>(at[r], inputs, numbers[r]);
        of_row[r] = numbers[r];
      }
      transpose_rows<float>(of_row, inputs, to, rapt::packed_dim_stride);
    }
    for (const std::uint8_t *&block : at) block += most / File::inputs * File::bytes;
    to += most * rapt::packed_dim_stride;
  }
}

}  // namespace
