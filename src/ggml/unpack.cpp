// Turns blocks into rapt's codes, scales and offsets. Scales of super-blocks are products of a half and an
// integer of at most 8 bits, so they are exact in f32.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ggml/blocks.hpp"
#include "ggml/code_bits.hpp"
#include "ggml/formats.hpp"
#include "ggml/halves.hpp"

namespace rapt_ggml {
namespace {

// Two codes a byte, in rapt's order.
template <std::size_t count>
void join(const Byte *__restrict codes, Byte *__restrict pairs) {
  for (std::size_t i = 0; i < count / 2; ++i)
    pairs[i] = static_cast<Byte>(codes[2 * i] | codes[2 * i + 1] << 4);
}

// load_halves and join at once.
template <std::size_t count>
void split_pairs(const Byte *__restrict halves, Byte *__restrict pairs) {
  for (std::size_t i = 0; i < count / 2; ++i)
    pairs[i] = static_cast<Byte>((halves[2 * i] & 15) | halves[2 * i + 1] << 4);
  for (std::size_t i = 0; i < count / 2; ++i)
    pairs[count / 2 + i] = static_cast<Byte>(halves[2 * i] >> 4 | (halves[2 * i + 1] & 0xf0));
}

// Input 32 j + k of 128 is in bits 2j and 2j + 1 of byte k.
void split_quarters(const Byte *__restrict quarters, Byte *__restrict codes) {
  for (std::size_t i = 0; i < 32; ++i) codes[i] = quarters[i] & 3;
  for (std::size_t i = 0; i < 32; ++i) codes[32 + i] = quarters[i] >> 2 & 3;
  for (std::size_t i = 0; i < 32; ++i) codes[64 + i] = quarters[i] >> 4 & 3;
  for (std::size_t i = 0; i < 32; ++i) codes[96 + i] = static_cast<Byte>(quarters[i] >> 6);
}

// The values of both halves of a byte. One access to a table gives two codes.
constexpr std::array<std::array<Byte, 2>, 256> iq4_pairs = [] {
  std::array<std::array<Byte, 2>, 256> pairs{};
  for (std::size_t i = 0; i < 256; ++i)
    pairs[i] = {static_cast<Byte>(iq4_values[i & 15]), static_cast<Byte>(iq4_values[i >> 4])};
  return pairs;
}();

void iq4(const Byte *__restrict halves, Byte *__restrict codes) {
  std::array<Byte, 2> pairs[16];
  for (std::size_t i = 0; i < 16; ++i) pairs[i] = iq4_pairs[halves[i]];
  for (std::size_t i = 0; i < 16; ++i) codes[i] = pairs[i][0];
  for (std::size_t i = 0; i < 16; ++i) codes[16 + i] = pairs[i][1];
}

// e2m1_values by arithmetic, which is faster than a table where bytes cannot be shuffled. The magnitudes 5,
// 6, 7 stand for 6, 8, 12.
template <std::size_t count>
void e2m1(const Byte *__restrict halves, Byte *__restrict codes) {
  Byte low[2 * count];
  load_halves<count>(halves, low);
  for (std::size_t i = 0; i < 2 * count; ++i) {
    const Byte code = low[i] & 7;
    const Byte above = static_cast<Byte>(code > 4 ? code - 4 : 0), last = code == 7 ? 2 : 0;
    const Byte magnitude = static_cast<Byte>(code + above + last);
    codes[i] = static_cast<Byte>(low[i] > 7 ? -magnitude : magnitude);
  }
}

void unpack(const BlockQ8_0 &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  std::memcpy(codes, block.codes, sizeof block.codes);
}

void unpack(const BlockQ4_0 &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  split_pairs<16>(block.codes, codes);
}

void unpack(const BlockQ4_1 &block, Byte *codes, float *scales, float *offsets) {
  scales[0] = load_half_as_float(block.scale);
  offsets[0] = load_half_as_float(block.offset);
  split_pairs<16>(block.codes, codes);
}

void unpack(const BlockQ5_0 &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  load_five_bits(block.codes, block.high, codes);
  for (std::size_t i = 0; i < 32; ++i) codes[i] = static_cast<Byte>(codes[i] - 16);
}

void unpack(const BlockQ5_1 &block, Byte *codes, float *scales, float *offsets) {
  scales[0] = load_half_as_float(block.scale);
  offsets[0] = load_half_as_float(block.offset);
  load_five_bits(block.codes, block.high, codes);
}

void unpack(const BlockIQ4_NL &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  iq4(block.codes, codes);
}

// The scale is half of 2^(exponent - 127), because codes are doubled. The two smallest are subnormal. ggml
// has no NaN here.
void unpack(const BlockMXFP4 &block, Byte *codes, float *scales, float *) {
  const std::uint32_t exponent = block.exponent;
  scales[0] = std::bit_cast<float>(exponent < 2 ? 0x200000U << exponent : (exponent - 1) << 23);
  e2m1<16>(block.codes, codes);
}

// A scale has four bits of exponent and three of mantissa, without a sign. ggml takes its NaN, 127, as 0.
float e4m3_half(Byte byte) {
  if (byte == 127) return 0;
  const std::uint32_t exponent = byte >> 3 & 15U, mantissa = byte & 7U;
  if (exponent == 0) return static_cast<float>(mantissa) * 0x1p-10f;
  return std::bit_cast<float>((exponent + 119) << 23 | mantissa << 20);
}

void unpack(const BlockNVFP4 &block, Byte *codes, float *scales, float *) {
  for (std::size_t i = 0; i < 4; ++i) scales[i] = e4m3_half(block.scales[i]);
  for (std::size_t i = 0; i < 4; ++i) e2m1<8>(block.codes + 8 * i, codes + 16 * i);
}

void unpack(const BlockQ2_K &block, Byte *codes, float *scales, float *offsets) {
  const float scale = load_half_as_float(block.scale), offset = load_half_as_float(block.offset);
  for (std::size_t i = 0; i < 16; ++i) {
    scales[i] = scale * static_cast<float>(block.scales[i] & 15);
    offsets[i] = -(offset * static_cast<float>(block.scales[i] >> 4));
  }
  Byte bytes[256];
  split_quarters(block.codes, bytes);
  split_quarters(block.codes + 32, bytes + 128);
  join<256>(bytes, codes);
}

// Bits 0 to 3 of scale i are in the halves of 8 bytes, bits 4 and 5 in the 4 bytes after them. A code of 4
// bits is negative, with bits 2 and 3 set, where the high bit is not.
void unpack(const BlockQ3_K &block, Byte *codes, float *scales, float *) {
  const float scale = load_half_as_float(block.scale);
  for (unsigned i = 0; i < 16; ++i) {
    const int low = i < 8 ? block.scales[i] & 15 : block.scales[i - 8] >> 4;
    const int high = block.scales[8 + i % 4] >> 2 * (i / 4) & 3;
    scales[i] = scale * static_cast<float>((low | high << 4) - 32);
  }
  Byte bytes[256];
  split_quarters(block.codes, bytes);
  split_quarters(block.codes + 32, bytes + 128);
  for (unsigned j = 0; j < 8; ++j) {
    const Byte bit = static_cast<Byte>(1U << j);
    for (unsigned i = 0; i < 32; ++i) bytes[32 * j + i] |= block.high[i] & bit ? 0 : 12;
  }
  join<256>(bytes, codes);
}

// Eight scales and eight offsets of six bits in 12 bytes. The first four of each are the low bits of bytes 0
// to 7. The others have four bits in bytes 8 to 11, and two in the high bits of bytes 0 to 7.
void k_scales(const Byte *scale, const Byte *offset, const Byte *in, float *scales, float *offsets) {
  const float scale_unit = load_half_as_float(scale), offset_unit = load_half_as_float(offset);
  int s[8], o[8];
  for (std::size_t i = 0; i < 4; ++i) {
    s[i] = in[i] & 63;
    o[i] = in[4 + i] & 63;
    s[4 + i] = (in[8 + i] & 15) | in[i] >> 6 << 4;
    o[4 + i] = in[8 + i] >> 4 | in[4 + i] >> 6 << 4;
  }
  for (std::size_t i = 0; i < 8; ++i) {
    scales[i] = scale_unit * static_cast<float>(s[i]);
    offsets[i] = -(offset_unit * static_cast<float>(o[i]));
  }
}

void unpack(const BlockQ4_K &block, Byte *codes, float *scales, float *offsets) {
  k_scales(block.scale, block.offset, block.scales, scales, offsets);
  for (std::size_t i = 0; i < 4; ++i) split_pairs<32>(block.codes + 32 * i, codes + 32 * i);
}

void unpack(const BlockQ5_K &block, Byte *codes, float *scales, float *offsets) {
  k_scales(block.scale, block.offset, block.scales, scales, offsets);
  for (std::size_t i = 0; i < 4; ++i) load_halves<32>(block.codes + 32 * i, codes + 64 * i);
  Byte bytes[256];
  std::memcpy(bytes, codes, sizeof bytes);
  for (unsigned j = 0; j < 8; ++j) {
    const Byte bit = static_cast<Byte>(1U << j);
    for (unsigned i = 0; i < 32; ++i) bytes[32 * j + i] |= block.high[i] & bit ? 16 : 0;
  }
  std::memcpy(codes, bytes, sizeof bytes);
}

void unpack(const BlockQ6_K &block, Byte *codes, float *scales, float *) {
  const float scale = load_half_as_float(block.scale);
  for (std::size_t i = 0; i < 16; ++i)
    scales[i] = scale * static_cast<float>(static_cast<std::int8_t>(block.scales[i]));
  Byte low[256], high[256];
  for (std::size_t i = 0; i < 2; ++i) {
    load_halves<64>(block.low + 64 * i, low + 128 * i);
    split_quarters(block.high + 32 * i, high + 128 * i);
  }
  for (std::size_t i = 0; i < 256; ++i) low[i] = static_cast<Byte>((low[i] | high[i] << 4) - 32);
  std::memcpy(codes, low, sizeof low);
}

void unpack(const BlockIQ4_XS &block, Byte *codes, float *scales, float *) {
  const float scale = load_half_as_float(block.scale);
  for (unsigned i = 0; i < 8; ++i) {
    const int low = block.scales_low[i / 2] >> 4 * (i % 2) & 15;
    const int high = load_half(block.scales_high) >> 2 * i & 3;
    scales[i] = scale * static_cast<float>((low | high << 4) - 32);
    iq4(block.codes + 16 * i, codes + 32 * i);
  }
}

// The digits of `count` bytes, as codes of 4 bits, -1 to 1. A byte times 3^i, without what overflows, has
// digit i in front.
template <std::size_t count, unsigned digits>
void ternary(const Byte *__restrict bytes, Byte *__restrict codes) {
  for (unsigned i = 0, power = 1; i < digits; ++i, power *= 3) {
    for (std::size_t j = 0; j < count; ++j) {
      const unsigned fraction = bytes[j] * power & 255;
      codes[count * i + j] = static_cast<Byte>(((fraction * 3 >> 8) - 1U) & 15U);
    }
  }
}

void unpack(const BlockTQ1_0 &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  Byte bytes[256];
  ternary<32, 5>(block.digits, bytes);
  ternary<16, 5>(block.digits + 32, bytes + 160);
  ternary<4, 4>(block.rest, bytes + 240);
  join<256>(bytes, codes);
}

void unpack(const BlockTQ2_0 &block, Byte *codes, float *scales, float *) {
  scales[0] = load_half_as_float(block.scale);
  Byte bytes[256];
  split_quarters(block.codes, bytes);
  split_quarters(block.codes + 32, bytes + 128);
  for (std::size_t i = 0; i < 256; ++i) bytes[i] = static_cast<Byte>(bytes[i] - 1) & 15;
  join<256>(bytes, codes);
}

}  // namespace

void unpack_row(ggml_type type, const void *row, std::size_t n, std::uint8_t *codes, float *scales,
                float *offsets) {
  with_block(type, [&]<class Block>(const Block &) {
    const auto *blocks = static_cast<const Block *>(row);
    for (std::size_t i = 0; i < n / Block::elements; ++i) {
      unpack(blocks[i], codes, scales, offsets);
      codes += Block::format.code_bytes(Block::elements);
      scales += Block::format.groups(Block::elements);
      if (Block::format.offsets) offsets += Block::format.groups(Block::elements);
    }
  });
}

}  // namespace rapt_ggml
