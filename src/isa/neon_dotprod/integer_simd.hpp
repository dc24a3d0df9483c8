// Defines the integer vectors of NEON with SDOT for attention over int8. A 16-bit integer is stored as two
// digits of 8 bits: x = 256 * high + low.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/neon/byte_parts.hpp"
#include "isa/neon/integer_simd.hpp"

namespace {

struct DotprodIntegers : IntegerSimd {
  using Bytes = int8x16_t;

  // 16 integers are stored as 16 high digits and then 16 low digits. Their address is a multiple of 32 bytes.
  static constexpr std::size_t digits = 16;
  static void store_rounded(std::int16_t *to, f32 v) {
    const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(to), within = at % (2 * digits);
    auto *const high = reinterpret_cast<std::int8_t *>(to) - within / 2;
    const int32x4_t whole = vcvtnq_s32_f32(v);
    const int16x4_t rounded_up = vshrn_n_s32(vaddq_s32(whole, vdupq_n_s32(128)), 8);
    const int8x8_t both = vmovn_s16(vcombine_s16(rounded_up, vmovn_s32(whole)));
    const std::int32_t of_high = vget_lane_s32(vreinterpret_s32_s8(both), 0);
    const std::int32_t of_low = vget_lane_s32(vreinterpret_s32_s8(both), 1);
    std::memcpy(high, &of_high, sizeof of_high);  // memcpy, because `to` may point to floats
    std::memcpy(high + digits, &of_low, sizeof of_low);
  }

  static Bytes load_bytes(const std::int8_t *p) { return vld1q_s8(p); }
  static Bytes load_first(const std::int8_t *p, std::size_t k) {
    return vreinterpretq_s8_u8(load_first_16(p, k));
  }
  // load_eight() and load_four() load 8 or 4 bytes; the rest of the vector is 0. gcc 12 would add a move
  // after an intrinsic's load.
  static Bytes load_eight(const std::int8_t *p) {
    Bytes v;
    __asm__("ldr %d0, %1" : "=w"(v) : "m"(*reinterpret_cast<const EightBytes *>(p)));
    return v;
  }
  static Bytes load_four(const std::int8_t *p) {
    Bytes v;
    __asm__("ldr %s0, %1" : "=w"(v) : "m"(*reinterpret_cast<const FourBytes *>(p)));
    return v;
  }
  // This is inline assembly, because gcc 12 and its assembler offer the instructions only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  static Sums add_fours(Sums s, Bytes a, Bytes b) {
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(a), "w"(b));
    return s;
  }
  // Multiplies each group of four bytes of a by the first four bytes of b.
  static Sums add_fours_by_first(Sums s, Bytes a, Bytes b) {
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[0]" : "+w"(s) : "w"(a), "w"(b));
    return s;
  }
  static Sums pair_sums(Sums a, Sums b) { return vpaddq_s32(a, b); }
  static Sums joined(Sums high, Sums low) { return vaddq_s32(low, vshlq_n_s32(high, 8)); }

  // Interleaves the bytes of four rows column by column. Each result has four columns.
  static void interleave(const Bytes (&row)[4], Bytes (&c)[2]) {
    const Bytes ab = vzip1q_s8(row[0], row[1]), cd = vzip1q_s8(row[2], row[3]);
    c[0] = zip_low_pairs(ab, cd);
    c[1] = zip_high_pairs(ab, cd);
  }
  static void interleave(const Bytes (&row)[4], Bytes (&c)[4]) {
    Bytes first[2];
    interleave(row, first);
    c[0] = first[0];
    c[1] = first[1];
    const Bytes ab = vzip2q_s8(row[0], row[1]), cd = vzip2q_s8(row[2], row[3]);
    c[2] = zip_low_pairs(ab, cd);
    c[3] = zip_high_pairs(ab, cd);
  }

 private:
  struct [[gnu::may_alias, gnu::packed]] EightBytes {
    std::int8_t bytes[8];
  };
  struct [[gnu::may_alias, gnu::packed]] FourBytes {
    std::int8_t bytes[4];
  };
  static Bytes zip_low_pairs(Bytes a, Bytes b) {
    return vreinterpretq_s8_s16(vzip1q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
  }
  static Bytes zip_high_pairs(Bytes a, Bytes b) {
    return vreinterpretq_s8_s16(vzip2q_s16(vreinterpretq_s16_s8(a), vreinterpretq_s16_s8(b)));
  }
};

}  // namespace
