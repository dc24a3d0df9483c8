// What blocks of weights in files mean: the integer, scale and offset of one element, written from the layouts alone
// and in the simplest way. The code under test has tables of bits, or splits whole blocks with masks.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace rapt::test::oracle {

enum class FileType {
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
  nvfp4,
  tq1_0,
  tq2_0,
  none
};

// The inputs and bytes of a block, and how many inputs share a scale.
struct BlockSize {
  std::size_t inputs, bytes, group;
};
constexpr BlockSize size_of_block(FileType type) {
  constexpr BlockSize sizes[] = {{32, 34, 32},   {32, 18, 32},   {32, 20, 32},   {32, 22, 32},
                                 {32, 24, 32},   {256, 84, 16},  {256, 110, 16}, {256, 144, 32},
                                 {256, 176, 32}, {256, 210, 16}, {32, 18, 32},   {256, 136, 32},
                                 {32, 17, 32},   {64, 36, 16},   {256, 54, 256}, {256, 66, 256}};
  return sizes[static_cast<int>(type)];
}
constexpr bool has_offsets(FileType type) {
  return type == FileType::q4_1 || type == FileType::q5_1 || type == FileType::q2_k ||
         type == FileType::q4_k || type == FileType::q5_k;
}

struct BlockElement {
  int integer;
  float scale, offset;

  float number() const { return static_cast<float>(integer) * scale + offset; }
};

inline float number_of_half(unsigned half) {
  const unsigned exponent = half >> 10 & 31, mantissa = half & 1023;
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), static_cast<int>(exponent) - 25);
}

inline BlockElement element_of_block(FileType type, const std::uint8_t *block, std::size_t i) {
  const auto half = [&](std::size_t at) { return number_of_half(block[at] | block[at + 1] * 256U); };
  const auto bits = [&](std::size_t at, std::size_t first, int count) {
    return block[at + first / 8] >> first % 8 & ((1 << count) - 1);
  };
  // Of 32 inputs that share 16 bytes, or of 64 that share 32.
  const auto nibble = [&](std::size_t at, std::size_t input, std::size_t bytes) {
    return input < bytes ? block[at + input] % 16 : block[at + input - bytes] / 16;
  };
  const auto scaled = [&](int integer, std::size_t scale_at, int times) {
    return BlockElement{integer, half(scale_at) * static_cast<float>(times), 0};
  };
  const std::size_t quarter_at = i / 128 * 32 + i % 32, quarter_bit = i % 128 / 32 * 2;
  static constexpr int iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  static constexpr int e2m1[] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
  switch (type) {
    case FileType::q8_0:
      return {static_cast<std::int8_t>(block[2 + i]), half(0), 0};
    case FileType::q4_0:
      return {nibble(2, i, 16) - 8, half(0), 0};
    case FileType::q4_1:
      return {nibble(4, i, 16), half(0), half(2)};
    case FileType::q5_0:
      return {nibble(6, i, 16) + 16 * bits(2, i, 1) - 16, half(0), 0};
    case FileType::q5_1:
      return {nibble(8, i, 16) + 16 * bits(4, i, 1), half(0), half(2)};
    case FileType::iq4_nl:
      return {iq4[nibble(2, i, 16)], half(0), 0};
    case FileType::mxfp4:
      return {e2m1[nibble(1, i, 16)], std::ldexp(1.0f, block[0] - 128), 0};
    case FileType::nvfp4: {
      const int exponent = block[i / 16] >> 3 & 15, mantissa = block[i / 16] & 7;
      float scale =
          std::ldexp(static_cast<float>(exponent ? 8 + mantissa : mantissa), (exponent ? exponent : 1) - 11);
      if (block[i / 16] == 127) scale = 0;
      return {e2m1[nibble(4 + i / 16 * 8, i % 16, 8)], scale, 0};
    }
    case FileType::q2_k: {
      BlockElement element = scaled(bits(16 + quarter_at, quarter_bit, 2), 80, block[i / 16] % 16);
      element.offset = -half(82) * static_cast<float>(block[i / 16] / 16);
      return element;
    }
    case FileType::q3_k: {
      const std::size_t group = i / 16;
      const int low = bits(96 + group % 8, group / 8 * 4, 4), high = bits(104 + group % 4, group / 4 * 2, 2);
      const int integer = bits(32 + quarter_at, quarter_bit, 2) + 4 * bits(i % 32, i / 32, 1) - 4;
      return scaled(integer, 108, low + 16 * high - 32);
    }
    case FileType::q4_k:
    case FileType::q5_k: {
      const std::size_t group = i / 32, late = group % 4;
      const int scale = group < 4 ? bits(4 + group, 0, 6) : bits(12 + late, 0, 4) + 16 * bits(4 + late, 6, 2);
      const int offset =
          group < 4 ? bits(8 + group, 0, 6) : bits(12 + late, 4, 4) + 16 * bits(8 + late, 6, 2);
      const bool five = type == FileType::q5_k;
      const int low = nibble((five ? 48 : 16) + i / 64 * 32, i % 64, 32);
      BlockElement element = scaled(low + (five ? 16 * bits(16 + i % 32, group, 1) : 0), 0, scale);
      element.offset = -half(2) * static_cast<float>(offset);
      return element;
    }
    case FileType::q6_k: {
      const int low = nibble(i / 128 * 64, i % 128, 64), high = bits(128 + quarter_at, quarter_bit, 2);
      return scaled(low + 16 * high - 32, 208, static_cast<std::int8_t>(block[192 + i / 16]));
    }
    case FileType::iq4_xs: {
      const std::size_t group = i / 32;
      const int low = bits(4 + group / 2, group % 2 * 4, 4), high = bits(2, 0, 8) | bits(3, 0, 8) << 8;
      return scaled(iq4[nibble(8 + 16 * group, i % 32, 16)], 0, low + 16 * (high >> 2 * group & 3) - 32);
    }
    case FileType::tq1_0: {  // 32, 16 and 4 bytes of 5, 5 and 4 digits
      const std::size_t in = i < 160 ? i : i < 240 ? i - 160 : i - 240;
      const std::size_t row = i < 160 ? 32 : i < 240 ? 16 : 4, start = i < 160 ? 0 : i < 240 ? 32 : 48;
      int fraction = block[start + in % row];
      for (std::size_t digit = 0; digit < in / row; ++digit) fraction = fraction * 3 % 256;
      return {fraction * 3 / 256 - 1, half(52), 0};
    }
    case FileType::tq2_0:
      return {bits(quarter_at, quarter_bit, 2) - 1, half(64), 0};
    case FileType::none:
      break;
  }
  return {0, std::numeric_limits<float>::quiet_NaN(), 0};
}

}  // namespace rapt::test::oracle
