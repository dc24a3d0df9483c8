// Turns blocks of files, and rows of 4 bits whose scales lie apart, into numbers, a block at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <xsimd/xsimd.hpp>

#include "contract/file_blocks.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// How the codes of a block lie: `run` of them have their bits at the same place of bytes that follow each other.
template <class File>
struct Runs {
  static constexpr bool follows(std::size_t first, std::size_t i) {
    const rapt::Places a = File::code(first), b = File::code(first + i);
    const auto is_next = [&](const rapt::Bits &x, const rapt::Bits &y) {
      return y.byte == x.byte + i && y.shift == x.shift;
    };
    return is_next(a.low, b.low) && (a.high.count == 0 || is_next(a.high, b.high));
  }
  static constexpr std::size_t run = [] {
    std::size_t run = File::inputs < 32 ? File::inputs : 32;
    for (std::size_t first = 0; first < File::inputs; first += run) {
      for (std::size_t i = 0; i < run; ++i) {
        if (!follows(first, i)) run /= 2, first = i = 0;
      }
    }
    return run;
  }();
};

// Sets `codes` to those of a block, which are unsigned. The lengths of loops are constants, so that compilers use
// vectors.
template <class File>
RAPT_INNER inline void load_codes_of_block(const std::uint8_t *__restrict block,
                                           std::uint8_t *__restrict codes) {
  constexpr std::size_t run = Runs<File>::run;
  const auto some_bits = [](unsigned byte, const rapt::Bits &at) RAPT_INNER {
    return static_cast<std::uint8_t>((byte >> at.shift & ((1U << at.count) - 1)) << at.to);
  };
  unroll<File::inputs / run>([&](std::size_t r) RAPT_INNER {
    const rapt::Places at = File::code(r * run);
    const std::uint8_t *const low = block + at.low.byte;
    std::uint8_t *const to = codes + r * run;
    for (std::size_t i = 0; i < run; ++i) to[i] = some_bits(low[i], at.low) ^ File::flip;
    if constexpr (File::code(0).high.count > 0) {
      const std::uint8_t *const high = block + at.high.byte;
      for (std::size_t i = 0; i < run; ++i) to[i] |= some_bits(high[i], at.high);
    }
  });
}

// The integers of a codebook plus 128.
struct BytesOfCodebook {
  alignas(16) std::uint8_t bytes[16];
};
template <class File>
inline constexpr BytesOfCodebook bytes_of_codebook = [] {
  BytesOfCodebook made{};
  for (unsigned q = 0; q < 16; ++q)
    made.bytes[q] = static_cast<std::uint8_t>(rapt::integer_of(File::codebook, q) + 128);
  return made;
}();

// Codes of a codebook become its integers plus 128.
template <class Codes, class File>
RAPT_INNER inline void look_up_codes(std::uint8_t *codes, std::size_t count) {
  using words = xsimd::batch<std::uint32_t, typename simd<float>::batch::arch_type>;
  for (std::size_t i = 0; i < count; i += sizeof(words)) {
    auto *const at = reinterpret_cast<std::uint32_t *>(codes + i);
    words(Codes::look_up_bytes(bytes_of_codebook<File>.bytes, words::load_unaligned(at))).store_unaligned(at);
  }
}

// Of most formats, a block has 32 inputs and one scale. Their codes are halves of 16 bytes, to which four bytes may add
// a bit each, or whole bytes.
template <class File>
inline constexpr bool has_halves_of_32 = File::inputs == 32 && (File::bits == 4 || File::bits == 5) &&
                                         !File::has_scales_apart;
template <class File>
inline constexpr bool has_bytes_of_32 = File::inputs == 32 && File::bits == 8;
template <class File>
inline constexpr bool has_scale_of_32 =
    has_halves_of_32<File> || has_bytes_of_32<File> || File::has_scales_apart;

// The float that with_magic() makes of a code of 0.
inline constexpr float magic_of_codes = 0x1p23f;

// The integers of codes of 4 bits.
template <class File>
struct IntegersOfHalves {
  alignas(64) float numbers[16];
  constexpr IntegersOfHalves() : numbers() {
    for (unsigned q = 0; q < 16; ++q) {
      const int integer = File::codebook != rapt::Codebook::none
                              ? rapt::integer_of(File::codebook, q)
                              : static_cast<int>(q ^ File::flip) - static_cast<int>(File::zero);
      numbers[q] = static_cast<float>(integer);
    }
  }
};

// Returns the integers of the codes in the low 4 bits of words.
template <class Codes, class File, class Words>
RAPT_INNER inline typename simd<float>::batch integers_of_codes(Words words,
                                                                const IntegersOfHalves<File> &table) {
  using batch = typename simd<float>::batch;
  if constexpr (File::codebook != rapt::Codebook::none || Codes::prefers_tables) {
    return Codes::look_up(table.numbers, words);
  } else {
    return batch(Codes::template with_magic<15, File::flip>(words)) -
           batch(magic_of_codes + static_cast<float>(File::zero));
  }
}

// The four bytes that have the fifth bits of a block's codes.
template <class File>
std::uint32_t high_bits_of(const std::uint8_t *block) {
  std::uint32_t bits;
  std::memcpy(&bits, block + File::code(0).high.byte, sizeof bits);
  return bits;
}

// Calls f(i, integers) with a vector of the integers of inputs i and after it, for all inputs of a block.
template <class Codes, class File, class F>
RAPT_INNER inline void each_of_halves(const std::uint8_t *block, F f) {
  using V = simd<float>;
  using batch = typename V::batch;
  static constexpr IntegersOfHalves<File> table;
  constexpr std::size_t half = 16;
  [[maybe_unused]] std::uint32_t high = 0;
  if constexpr (File::bits == 5) high = high_bits_of<File>(block);
  const auto add = [&](std::size_t i, batch low) RAPT_INNER {
    if constexpr (File::bits == 5) low = V::add_where(V::lanes_of_bits(high >> i), low, batch(16.0f));
    f(i, low);
  };
  unroll<half / V::width>([&](std::size_t n) RAPT_INNER {
    const std::size_t i = n * V::width;
    const auto low = V::load_words(block + File::code(0).low.byte + i);
    const decltype(low) high_half = Codes::high_halves(low);
    add(i, integers_of_codes<Codes>(low, table));
    add(half + i, integers_of_codes<Codes>(high_half, table));
  });
}

// Does the same for 16 bytes of two codes each, which follow each other.
template <class Codes, class Block, class F>
RAPT_INNER inline void each_of_pairs(const std::uint8_t *block, F f) {
  using V = simd<float>;
  static constexpr IntegersOfHalves<Block> table;
  unroll<Block::inputs / V::width>([&](std::size_t n) RAPT_INNER {
    const std::size_t i = n * V::width;
    f(i, integers_of_codes<Codes, Block>(Codes::pairs(block + i / 2), table));
  });
}

// Writes the numbers of a block of 32.
template <class Codes, class File>
RAPT_INNER inline void numbers_of_32(const std::uint8_t *block, typename simd<float>::batch scale,
                                     [[maybe_unused]] typename simd<float>::batch offset, float *y) {
  using V = simd<float>;
  using batch = typename V::batch;
  if constexpr (has_bytes_of_32<File>) {
    const auto *const codes = reinterpret_cast<const std::int8_t *>(block + File::code(0).low.byte);
    unroll<File::inputs / V::width>(
        [&](std::size_t n) RAPT_INNER { V::store(y + n * V::width, V::load(codes + n * V::width) * scale); });
  } else if constexpr (File::has_scales_apart) {
    each_of_pairs<Codes, File>(
        block, [&](std::size_t i, batch integers) RAPT_INNER { V::store(y + i, integers * scale); });
  } else {
    each_of_halves<Codes, File>(block, [&](std::size_t i, batch integers) RAPT_INNER {
      const batch scaled = integers * scale;
      V::store(y + i, File::has_offsets ? scaled + offset : scaled);
    });
  }
}

// Writes the numbers of whole blocks.
template <class Codes, class File>
[[gnu::noinline, gnu::flatten]] void numbers_of_blocks(const std::uint8_t *block, std::size_t inputs,
                                                       float *y) {
  if constexpr (has_halves_of_32<File> || has_bytes_of_32<File>) {
    for (; inputs > 0; inputs -= File::inputs, block += File::bytes, y += File::inputs) {
      float offset = 0;
      if constexpr (File::has_offsets) offset = rapt::offset_of_group<File>(block, 0);
      numbers_of_32<Codes, File>(block, typename simd<float>::batch(rapt::scale_of_group<File>(block, 0)),
                                 typename simd<float>::batch(offset), y);
    }
    return;
  }
  using V = simd<float>;
  using batch = typename V::batch;
  constexpr bool has_codebook = File::codebook != rapt::Codebook::none;
  constexpr std::size_t largest_vector = 64,
                        room = File::inputs < largest_vector ? largest_vector : File::inputs;
  const batch zero(static_cast<float>(has_codebook ? 128 : File::zero));
  alignas(largest_vector) std::uint8_t codes[room] = {};
  for (; inputs > 0; inputs -= File::inputs, block += File::bytes, y += File::inputs) {
    load_codes_of_block<File>(block, codes);
    if constexpr (has_codebook) look_up_codes<Codes, File>(codes, File::inputs);
    for (std::size_t g = 0; g < File::inputs / File::group; ++g) {
      const batch scale(rapt::scale_of_group<File>(block, g));
      batch offset(0.0f);
      if constexpr (File::has_offsets) offset = batch(rapt::offset_of_group<File>(block, g));
      for (std::size_t i = g * File::group; i < (g + 1) * File::group; i += V::width) {
        const batch scaled = (V::load(codes + i) - zero) * scale;
        V::store(y + i, File::has_offsets ? scaled + offset : scaled);
      }
    }
  }
}

// Scales in an array: row[r] has those of row r, one for each `blocks` blocks.
struct ScalesApart {
  const float *const *row = nullptr;
  std::size_t blocks = 1;
};

// The scales and offsets of up to 8 blocks in each of a vector of rows, with rows in the lanes.
template <class File>
class ScalesOfRows {
 public:
  static constexpr std::size_t width = simd<float>::width, most_blocks = 8;

  // Chooses the blocks [first, first + count) of rows.
  RAPT_INNER ScalesOfRows([[maybe_unused]] const ScalesApart &apart, [[maybe_unused]] std::size_t first,
                          [[maybe_unused]] std::size_t count) {
    if constexpr (File::has_scales_apart) {
      for (std::size_t b = 0; b < count; ++b) of_block_[b] = (first + b) / apart.blocks;
    }
  }
  // Loads those of row r, which are halves unless they lie apart.
  RAPT_INNER void load(const std::uint8_t *block, std::size_t r, std::size_t count,
                       [[maybe_unused]] const ScalesApart &apart) {
    for (std::size_t b = 0; b < count; ++b, block += File::bytes) {
      if constexpr (File::has_scales_apart) {
        scale[b][r] = apart.row[r][of_block_[b]];
      } else if constexpr (File::scale_of == rapt::ScaleOf::d) {
        std::memcpy(&d[b][r], block + File::d, sizeof d[b][r]);
      } else {
        scale[b][r] = rapt::scale_of_group<File>(block, 0);
      }
      if constexpr (File::has_offsets) std::memcpy(&m[b][r], block + File::m, sizeof m[b][r]);
    }
  }
  // Widens those of all rows.
  RAPT_INNER void widen(std::size_t count) {
    using V = simd<float>;
    for (std::size_t b = 0; b < count; ++b) {
      if constexpr (has_halves_of_scales) V::store(scale[b], V::load(d[b]));
      if constexpr (File::has_offsets) V::store(offset[b], V::load(m[b]));
    }
  }

  alignas(64) float scale[most_blocks][width], offset[File::has_offsets ? most_blocks : 1][width];

 private:
  static constexpr bool has_halves_of_scales = File::scale_of == rapt::ScaleOf::d && !File::has_scales_apart;
  rapt::F16 d[most_blocks][width], m[most_blocks][width];
  std::size_t of_block_[File::has_scales_apart ? most_blocks : 1];
};

// Writes the numbers of `count` rows of blocks, at most a vector of them, to rows at the distance `pitch`. `fetch` is
// called with the index of each row.
template <class Codes, class File, class Fetch>
RAPT_INNER inline void numbers_of_rows(const std::uint8_t *const *row,
                                       [[maybe_unused]] const ScalesApart &apart, std::size_t count,
                                       std::size_t inputs, float *y, std::size_t pitch, Fetch fetch) {
  if constexpr (!has_scale_of_32<File>) {
    for (std::size_t r = 0; r < count; ++r) {
      fetch(r);
      numbers_of_blocks<Codes, File>(row[r], inputs, y + r * pitch);
    }
  } else {
    using batch = typename simd<float>::batch;
    constexpr std::size_t most = ScalesOfRows<File>::most_blocks;
    for (std::size_t first = 0, blocks = inputs / File::inputs; first < blocks; first += most) {
      const std::size_t some = blocks - first < most ? blocks - first : most;
      ScalesOfRows<File> of(apart, first, some);
      for (std::size_t r = 0; r < count; ++r) of.load(row[r] + first * File::bytes, r, some, apart);
      of.widen(some);
      for (std::size_t r = 0; r < count; ++r) {
        if (first == 0) fetch(r);
        const std::uint8_t *block = row[r] + first * File::bytes;
        float *to = y + r * pitch + first * File::inputs;
        for (std::size_t b = 0; b < some; ++b, block += File::bytes, to += File::inputs) {
          batch offset(0.0f);
          if constexpr (File::has_offsets) offset = batch(of.offset[b][r]);
          numbers_of_32<Codes, File>(block, batch(of.scale[b][r]), offset, to);
        }
      }
    }
  }
}

}  // namespace
