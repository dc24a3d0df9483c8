// Defines what NEON does with the codes of quantized weights (kernels/linear/integer_tiles.hpp). Products of
// bytes take 16 bits each, and are added in pairs to 32 bits.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/neon/simd.hpp"

namespace {

struct CodeSimd {
  using f32 = Neon::f32;

  // A table lookup of bytes: the four bytes of element i are 4i to 4i + 3.
  static constexpr bool prefers_tables = false;
  static f32 look_up(const float *table, uint32x4_t codes) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(table);
    const uint8x16x4_t all = {
        {vld1q_u8(bytes), vld1q_u8(bytes + 16), vld1q_u8(bytes + 32), vld1q_u8(bytes + 48)}};
    const uint32x4_t indices = vandq_u32(codes, vdupq_n_u32(15));
    const uint32x4_t places = vmlaq_n_u32(vdupq_n_u32(0x03020100), indices, 0x04040404);
    return vreinterpretq_f32_u8(vqtbl4q_u8(all, vreinterpretq_u8_u32(places)));
  }
  template <int mask, int flip = 0>
  static f32 with_magic(uint32x4_t code) {
    const uint32x4_t masked = vandq_u32(code, vdupq_n_u32(mask));
    return vreinterpretq_f32_u32(veorq_u32(masked, vdupq_n_u32(0x4b000000 | flip)));
  }

  // Returns 4 codes of 4 bits that follow each other, in the low bits of words.
  static uint32x4_t pairs(const std::uint8_t *codes) {
    std::uint16_t halves;
    std::memcpy(&halves, codes, sizeof halves);
    const int32x4_t to_right = {0, -4, -8, -12};
    return vshlq_u32(vdupq_n_u32(halves), to_right);
  }

  template <unsigned shift, std::size_t j>
  static uint32x4_t signed_bits(uint32x4_t words) {
    const uint32x4_t on_top = vshlq_n_u32(words, 24 - 8 * static_cast<int>(j));
    const int32x4_t in_place = vshrq_n_s32(vreinterpretq_s32_u32(on_top), 24 - static_cast<int>(shift));
    return vandq_u32(vreinterpretq_u32_s32(in_place), vdupq_n_u32(0x80000000U | 127U << shift));
  }

  using X = std::int8_t;
  static constexpr std::size_t place(std::size_t j) { return j; }
  static constexpr std::size_t inputs_together = 4;
  static constexpr std::size_t most_rows = 4, sum_registers = 2;
  // Products need signed codes.
  static constexpr int byte_bias = 128;
  static uint32x4_t biased(uint32x4_t words) {
    return vreinterpretq_u32_u8(veorq_u8(vreinterpretq_u8_u32(words), vdupq_n_u8(128)));
  }
  static uint32x4_t low_halves(uint32x4_t words) {
    return vreinterpretq_u32_u8(vandq_u8(vreinterpretq_u8_u32(words), vdupq_n_u8(15)));
  }
  static uint32x4_t high_halves(uint32x4_t words) {
    return vreinterpretq_u32_u8(vshrq_n_u8(vreinterpretq_u8_u32(words), 4));
  }
  static uint32x4_t look_up_bytes(const std::uint8_t *table, uint32x4_t indices) {
    return vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(table), vreinterpretq_u8_u32(indices)));
  }
  template <std::size_t rows>
  using Quad = const X *;
  // A lane has the sum of two inputs of an output, and adjacent lanes belong to the same output.
  struct Sums {
    int32x4_t low, high;
  };
  using Weights = int8x16_t;

  static Sums start(std::int32_t n) {
    const int32x4_t once = vsetq_lane_s32(n, vdupq_n_s32(0), 0);
    const int32x4_t each = vreinterpretq_s32_s64(vdupq_laneq_s64(vreinterpretq_s64_s32(once), 0));
    return {each, each};
  }
  static Weights weights(uint32x4_t words) { return vreinterpretq_s8_u32(words); }
  template <std::size_t r>
  static Sums add(Sums s, Weights w, Quad<0> quad) {
    std::int32_t word;
    std::memcpy(&word, quad + 4 * r, sizeof word);
    const int8x16_t inputs = vreinterpretq_s8_s32(vdupq_n_s32(word));
    s.low = vpadalq_s16(s.low, vmull_s8(vget_low_s8(w), vget_low_s8(inputs)));
    s.high = vpadalq_s16(s.high, vmull_high_s8(w, inputs));
    return s;
  }
  static f32 numbers(Sums s) { return vcvtq_f32_s32(vpaddq_s32(s.low, s.high)); }
};

}  // namespace
