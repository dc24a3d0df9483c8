// Defines the integer vectors of NEON for attention over int8. Bytes are widened to 16 bits, and their
// products are added to sums of 32 bits.
#pragma once

#include <arm_neon.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "isa/neon/simd.hpp"
#include "kernels/vector/first_bytes.hpp"

namespace {

struct IntegerSimd {
  using Sums = int32x4_t;
  using Wide = int16x8_t;
  using f32 = Neon::f32;
  static constexpr std::size_t wide = 8;
  static constexpr std::size_t score_rows = 4, value_rows = 4;
  template <std::size_t rows>
  static constexpr std::size_t column_vectors = rows <= 2 ? 4 : 2;

  static Sums zero() { return vdupq_n_s32(0); }
  static Wide load(const std::int16_t *p) { return vld1q_s16(p); }
  static Wide widened(const std::int8_t *p) { return vmovl_s8(vld1_s8(p)); }
  static Wide widened_first(const std::int8_t *p, std::size_t k) {
    return vmovl_s8(vcreate_s8(first_bytes(p, k).low));
  }
  static Sums add_products(Sums s, Wide a, Wide b) {
    return vmlal_high_s16(vmlal_s16(s, vget_low_s16(a), vget_low_s16(b)), a, b);
  }
  static f32 load_parts(const float *p, std::size_t) { return vld1q_f32(p); }
  static f32 numbers(Sums s) { return vcvtq_f32_s32(s); }

  static Sums fold_quarters(const Sums (&v)[4]) {
    return vpaddq_s32(vpaddq_s32(v[0], v[1]), vpaddq_s32(v[2], v[3]));
  }
  static Sums join_quarters(const Sums (&v)[1]) { return v[0]; }

  // An instruction can multiply a row by one lane of the weights, so rows need no interleaving.
  struct Columns {
    Wide a, b;
  };
  static Columns columns(Wide a, Wide b) { return {a, b}; }
  static int16x4_t pair(const std::int16_t *p) {
    std::int32_t both;
    std::memcpy(&both, p, sizeof both);
    return vreinterpret_s16_s32(vdup_n_s32(both));
  }
  static void add_columns(Sums (&s)[2], const Columns &c, int16x4_t pair) {
    s[0] = vmlal_lane_s16(s[0], vget_low_s16(c.a), pair, 0);
    s[1] = vmlal_high_lane_s16(s[1], c.a, pair, 0);
    s[0] = vmlal_lane_s16(s[0], vget_low_s16(c.b), pair, 1);
    s[1] = vmlal_high_lane_s16(s[1], c.b, pair, 1);
  }
  static void in_order(Sums (&)[2]) {}

  static Sums greater_magnitude(Sums m, f32 v) {
    const uint32x4_t magnitude = vreinterpretq_u32_f32(vabsq_f32(v));
    return vreinterpretq_s32_u32(vmaxq_u32(vreinterpretq_u32_s32(m), magnitude));
  }
  static float largest(Sums m) { return std::bit_cast<float>(vmaxvq_u32(vreinterpretq_u32_s32(m))); }
  static void store_rounded(std::int16_t *to, f32 v) {
    const int16x4_t whole = vmovn_s32(vcvtnq_s32_f32(v));
    std::memcpy(to, &whole, sizeof whole);  // memcpy, because `to` may point to floats
  }
};

}  // namespace
