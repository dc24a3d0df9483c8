// Says what blocks of weights are in GGUF files: where a code, a scale or an offset has its bits.
//
//   type   | inputs, bytes | number of an input
//   Q8_0   | 32, 34        | d * q
//   Q4_0   | 32, 18        | d * (q - 8)
//   Q4_1   | 32, 20        | d * q + m
//   Q5_0   | 32, 22        | d * (q - 16)
//   Q5_1   | 32, 24        | d * q + m
//   Q2_K   | 256, 84       | d * s * q - m * t, where 16 inputs share s and t
//   Q3_K   | 256, 110      | d * (s - 32) * (q - 4), where 16 inputs share s
//   Q4_K   | 256, 144      | d * s * q - m * t, where 32 inputs share s and t
//   Q5_K   | 256, 176      | d * s * q - m * t, where 32 inputs share s and t
//   Q6_K   | 256, 210      | d * s * (q - 32), where 16 inputs share s
//   IQ4_NL | 32, 18        | d * iq4[q]
//   IQ4_XS | 256, 136      | d * (s - 32) * iq4[q], where 32 inputs share s
//   MXFP4  | 32, 17        | e8m0(s) / 2 * e2m1[q]
//   NVFP4  | 64, 36        | ue4m3(s) / 2 * e2m1[q], where 16 inputs share s
//
// d and m are f16, s and t are integers. Their products are exact in f32. The last two have no d.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "contract/types.hpp"
#include "rapt/rapt.h"

namespace rapt {

// Some bits of a byte, and where they belong in a number.
struct Bits {
  std::size_t byte;
  unsigned shift, count, to;
};
// A number is in one or two places. The second one may have no bits.
struct Places {
  Bits low, high;

  unsigned read(const std::uint8_t *block) const { return read(block, low) | read(block, high); }
  // The bits in the block must be 0.
  void write(std::uint8_t *block, unsigned number) const {
    write(block, low, number);
    write(block, high, number);
  }

 private:
  static unsigned read(const std::uint8_t *block, const Bits &at) {
    return (block[at.byte] >> at.shift & ((1U << at.count) - 1)) << at.to;
  }
  static void write(std::uint8_t *block, const Bits &at, unsigned number) {
    const unsigned bits = number >> at.to & ((1U << at.count) - 1);
    block[at.byte] = static_cast<std::uint8_t>(block[at.byte] | bits << at.shift);
  }
};

// The first 16 inputs have the low halves of 16 bytes, the others the high halves.
constexpr Bits half_of_32(std::size_t codes, std::size_t i) {
  return {codes + i % 16, i < 16 ? 0U : 4U, 4, 0};
}
// Of each 64 inputs, the first 32 have the low halves of 32 bytes.
constexpr Bits half_of_64(std::size_t codes, std::size_t i) {
  return {codes + i / 64 * 32 + i % 32, i % 64 < 32 ? 0U : 4U, 4, 0};
}
// Scales are numbers 0 to 7, offsets 8 to 15, each with six bits. Numbers 0 to 3 of both are whole.
constexpr Places six_bits(std::size_t bytes, std::size_t i) {
  const std::size_t of = i / 8, k = i % 8;
  if (k < 4) return {{bytes + 4 * of + k, 0, 6, 0}, {}};
  return {{bytes + 8 + k - 4, of == 0 ? 0U : 4U, 4, 0}, {bytes + 4 * of + k - 4, 6, 2, 4}};
}

// What an integer of a scale stands for, where blocks have no d.
enum class ScaleOf { d, e8m0, ue4m3 };

// Return half of the numbers of these formats, because codebooks have their integers doubled. In ggml, E8M0 has no
// NaN, and UE4M3 has 0 in place of its one. Kernels have vectors of them (kernels/linear/scaled_terms.hpp).
inline float half_of_e8m0(std::uint8_t byte) {
  return std::bit_cast<float>(byte < 2 ? 0x200000U << byte : (byte - 1U) << 23);
}
inline float half_of_ue4m3(std::uint8_t byte) {
  if (byte == 127) return 0;
  return std::bit_cast<float>((byte & 127U) << 20) * 0x1p119f;
}

// The integers that codes of 4 bits stand for. Those of E2M1 are doubled, and its -0 is 0.
enum class Codebook { none, iq4, e2m1 };
constexpr int integer_of(Codebook codebook, unsigned code) {
  constexpr int iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
                e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  return codebook == Codebook::iq4 ? iq4[code] : e2m1[code];
}

// What most blocks are like. Others replace what differs.
struct PlainBlock {
  static constexpr unsigned flip = 0;        // what changes a code of the file to an unsigned one
  static constexpr unsigned scale_zero = 0;  // is subtracted from the integer of a scale
  static constexpr bool has_offsets = false;
  static constexpr bool has_steps = false;     // scales are integers times d, offsets integers times m
  static constexpr bool shares_bytes = false;  // scales are the low halves of bytes, offsets the high ones
  static constexpr bool has_scales_apart = false;  // in an array of f32 (contract/cache_rows.hpp)
  static constexpr ScaleOf scale_of = ScaleOf::d;
  static constexpr Codebook codebook = Codebook::none;
};

struct Q8_0 : PlainBlock {
  static constexpr unsigned bits = 8, zero = 128, flip = 128;
  static constexpr std::size_t inputs = 32, bytes = 34, group = 32, d = 0;
  static constexpr Places code(std::size_t i) { return {{2 + i, 0, 8, 0}, {}}; }
};
struct Q4_0 : PlainBlock {
  static constexpr unsigned bits = 4, zero = 8;
  static constexpr std::size_t inputs = 32, bytes = 18, group = 32, d = 0;
  static constexpr Places code(std::size_t i) { return {half_of_32(2, i), {}}; }
};
struct Q4_1 : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0;
  static constexpr std::size_t inputs = 32, bytes = 20, group = 32, d = 0, m = 2;
  static constexpr bool has_offsets = true;
  static constexpr Places code(std::size_t i) { return {half_of_32(4, i), {}}; }
};
struct Q5_0 : PlainBlock {
  static constexpr unsigned bits = 5, zero = 16;
  static constexpr std::size_t inputs = 32, bytes = 22, group = 32, d = 0;
  static constexpr Places code(std::size_t i) {
    return {half_of_32(6, i), {2 + i / 8, static_cast<unsigned>(i % 8), 1, 4}};
  }
};
struct Q5_1 : PlainBlock {
  static constexpr unsigned bits = 5, zero = 0;
  static constexpr std::size_t inputs = 32, bytes = 24, group = 32, d = 0, m = 2;
  static constexpr bool has_offsets = true;
  static constexpr Places code(std::size_t i) {
    return {half_of_32(8, i), {4 + i / 8, static_cast<unsigned>(i % 8), 1, 4}};
  }
};
// Of each 128 inputs, 32 bytes have 2 bits of four times 32.
constexpr Bits quarter_of_128(std::size_t codes, std::size_t i) {
  return {codes + i / 128 * 32 + i % 32, static_cast<unsigned>(i % 128 / 32 * 2), 2, 0};
}
struct Q2_K : PlainBlock {
  static constexpr unsigned bits = 2, zero = 0;
  static constexpr std::size_t inputs = 256, bytes = 84, group = 16, d = 80, m = 82;
  static constexpr bool has_offsets = true, has_steps = true, shares_bytes = true;
  static constexpr Places code(std::size_t i) { return {quarter_of_128(16, i), {}}; }
  static constexpr Places scale(std::size_t g) { return {{g, 0, 8, 0}, {}}; }
};
struct Q3_K : PlainBlock {
  static constexpr unsigned bits = 3, zero = 4, scale_zero = 32;
  static constexpr std::size_t inputs = 256, bytes = 110, group = 16, d = 108;
  static constexpr bool has_steps = true;
  static constexpr Places code(std::size_t i) {
    return {quarter_of_128(32, i), {i % 32, static_cast<unsigned>(i / 32), 1, 2}};
  }
  static constexpr Places scale(std::size_t g) {
    return {{96 + g % 8, g < 8 ? 0U : 4U, 4, 0}, {104 + g % 4, static_cast<unsigned>(g / 4 * 2), 2, 4}};
  }
};
struct Q4_K : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0;
  static constexpr std::size_t inputs = 256, bytes = 144, group = 32, d = 0, m = 2;
  static constexpr bool has_offsets = true, has_steps = true;
  static constexpr Places code(std::size_t i) { return {half_of_64(16, i), {}}; }
  static constexpr Places scale(std::size_t g) { return six_bits(4, g); }
  static constexpr Places offset(std::size_t g) { return six_bits(4, 8 + g); }
};
struct Q5_K : PlainBlock {
  static constexpr unsigned bits = 5, zero = 0;
  static constexpr std::size_t inputs = 256, bytes = 176, group = 32, d = 0, m = 2;
  static constexpr bool has_offsets = true, has_steps = true;
  static constexpr Places code(std::size_t i) {
    return {half_of_64(48, i), {16 + i % 32, static_cast<unsigned>(i / 32), 1, 4}};
  }
  static constexpr Places scale(std::size_t g) { return six_bits(4, g); }
  static constexpr Places offset(std::size_t g) { return six_bits(4, 8 + g); }
};
struct Q6_K : PlainBlock {
  static constexpr unsigned bits = 6, zero = 32;
  static constexpr std::size_t inputs = 256, bytes = 210, group = 16, d = 208;
  static constexpr bool has_steps = true;
  static constexpr Places code(std::size_t i) {
    const std::size_t of = i / 128, k = i % 128;
    return {{64 * of + k % 64, k < 64 ? 0U : 4U, 4, 0},
            {128 + 32 * of + k % 32, static_cast<unsigned>(2 * (k / 32)), 2, 4}};
  }
  static constexpr Places scale(std::size_t g) { return {{192 + g, 0, 8, 0}, {}}; }
};

struct IQ4_NL : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0;
  static constexpr std::size_t inputs = 32, bytes = 18, group = 32, d = 0;
  static constexpr Codebook codebook = Codebook::iq4;
  static constexpr Places code(std::size_t i) { return {half_of_32(2, i), {}}; }
};
struct IQ4_XS : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0, scale_zero = 32;
  static constexpr std::size_t inputs = 256, bytes = 136, group = 32, d = 0;
  static constexpr bool has_steps = true;
  static constexpr Codebook codebook = Codebook::iq4;
  static constexpr Places code(std::size_t i) { return {half_of_32(8 + i / 32 * 16, i % 32), {}}; }
  static constexpr Places scale(std::size_t g) {
    return {{4 + g / 2, static_cast<unsigned>(g % 2 * 4), 4, 0},
            {2 + g / 4, static_cast<unsigned>(g % 4 * 2), 2, 4}};
  }
};
struct MXFP4 : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0;
  static constexpr std::size_t inputs = 32, bytes = 17, group = 32;
  static constexpr ScaleOf scale_of = ScaleOf::e8m0;
  static constexpr Codebook codebook = Codebook::e2m1;
  static constexpr Places code(std::size_t i) { return {half_of_32(1, i), {}}; }
  static constexpr Places scale(std::size_t) { return {{0, 0, 8, 0}, {}}; }
};
struct NVFP4 : PlainBlock {
  static constexpr unsigned bits = 4, zero = 0;
  static constexpr std::size_t inputs = 64, bytes = 36, group = 16;
  static constexpr ScaleOf scale_of = ScaleOf::ue4m3;
  static constexpr Codebook codebook = Codebook::e2m1;
  static constexpr Places code(std::size_t i) {
    return {{4 + i / 16 * 8 + i % 8, i % 16 < 8 ? 0U : 4U, 4, 0}, {}};
  }
  static constexpr Places scale(std::size_t g) { return {{g, 0, 8, 0}, {}}; }
};

// A number of f16 in a block, whose sign may change.
inline float half_at(const std::uint8_t *block, std::size_t at, unsigned sign = 0) {
  const unsigned bits = static_cast<unsigned>(block[at] | block[at + 1] << 8) ^ sign;
  return widened(F16{static_cast<std::uint16_t>(bits)});
}

// The scale and the offset of group g of a block, which are exact in f32.
template <class File>
float scale_of_group(const std::uint8_t *block, std::size_t g) {
  if constexpr (File::scale_of != ScaleOf::d) {
    const auto byte = static_cast<std::uint8_t>(File::scale(g).read(block));
    return File::scale_of == ScaleOf::e8m0 ? half_of_e8m0(byte) : half_of_ue4m3(byte);
  } else if constexpr (File::has_steps) {
    const unsigned bits = File::scale(g).read(block) & (File::shares_bytes ? 15U : 255U);
    return static_cast<float>(static_cast<std::int8_t>(bits - File::scale_zero)) * half_at(block, File::d);
  } else {
    return half_at(block, File::d);
  }
}
template <class File>
float offset_of_group(const std::uint8_t *block, std::size_t g) {
  if constexpr (!File::has_steps) {
    return half_at(block, File::m);
  } else if constexpr (File::shares_bytes) {
    return static_cast<float>(File::scale(g).read(block) >> 4) * half_at(block, File::m, 0x8000);
  } else {
    return static_cast<float>(File::offset(g).read(block)) * half_at(block, File::m, 0x8000);
  }
}

// Calls f(block) with the type's description, and returns whether it has one.
template <class F>
constexpr bool with_file_blocks(rapt_type type, F f) {
  switch (static_cast<int>(type)) {
    case RAPT_Q8_0:
      return f(Q8_0{}), true;
    case RAPT_Q4_0:
      return f(Q4_0{}), true;
    case RAPT_Q4_1:
      return f(Q4_1{}), true;
    case RAPT_Q5_0:
      return f(Q5_0{}), true;
    case RAPT_Q5_1:
      return f(Q5_1{}), true;
    case RAPT_Q4_K:
      return f(Q4_K{}), true;
    case RAPT_Q5_K:
      return f(Q5_K{}), true;
    case RAPT_Q6_K:
      return f(Q6_K{}), true;
    case RAPT_Q2_K:
      return f(Q2_K{}), true;
    case RAPT_Q3_K:
      return f(Q3_K{}), true;
    case RAPT_IQ4_NL:
      return f(IQ4_NL{}), true;
    case RAPT_IQ4_XS:
      return f(IQ4_XS{}), true;
    case RAPT_MXFP4:
      return f(MXFP4{}), true;
    case RAPT_NVFP4:
      return f(NVFP4{}), true;
    default:
      return false;
  }
}

// What most of the library needs to know of a type.
struct FileBlocks {
  unsigned bits = 0, zero = 0;
  std::size_t inputs = 1, bytes = 1, group = 0;
  bool has_offsets = false, has_steps = false, shares_bytes = false;
  ScaleOf scale_of = ScaleOf::d;
  Codebook codebook = Codebook::none;

  explicit operator bool() const { return bits != 0; }
  static constexpr FileBlocks of(rapt_type type) {
    FileBlocks found;
    with_file_blocks(type, [&]<class B>(B) {
      found = {B::bits,        B::zero,      B::inputs,       B::bytes,    B::group,
               B::has_offsets, B::has_steps, B::shares_bytes, B::scale_of, B::codebook};
    });
    return found;
  }
};

}  // namespace rapt
