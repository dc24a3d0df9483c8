// Defines ByteSimd and RowSimd for NEON. Products of bytes have 16 bits, and are added in pairs.
#pragma once

#include <arm_neon.h>

#include <type_traits>

#include "isa/neon/byte_parts.hpp"
#include "kernels/byte_dot.hpp"

namespace {

// A product of two signed bytes fits 16 bits. So does the product of an unsigned and a signed byte, whose
// magnitude is at most 32640.
template <class E>
struct ByteSimd {
  using Sums = int32x4_t;
  using Factors = std::conditional_t<std::is_signed_v<E>, int8x16_t, uint8x16_t>;
  static constexpr std::size_t width = 16, together = 4, most_per_step = 4 * 255 * 128;

  static Sums zero() { return vdupq_n_s32(0); }
  static int8x16_t load(const std::int8_t *p) { return vld1q_s8(p); }
  static uint8x16_t load(const std::uint8_t *p) { return vld1q_u8(p); }
  static int8x16_t as(uint8x16_t v, const std::int8_t *) { return vreinterpretq_s8_u8(v); }
  static uint8x16_t as(uint8x16_t v, const std::uint8_t *) { return v; }
  template <class B>
  static auto load_first(const B *p, std::size_t k) {
    return as(load_first_16(p, k), p);
  }
  static Factors factors(const E *a) { return load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return load_first(a, k); }
  static Sums add_products(Sums s, int8x16_t a, int8x16_t b) {
    return vpadalq_s16(vpadalq_s16(s, vmull_s8(vget_low_s8(a), vget_low_s8(b))), vmull_high_s8(a, b));
  }
  static Sums add_products(Sums s, uint8x16_t a, int8x16_t b) {
    const auto low = [](uint8x16_t v) { return vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(v))); };
    const auto high = [](uint8x16_t v) { return vreinterpretq_s16_u16(vmovl_high_u8(v)); };
    const int16x8_t first = vmulq_s16(low(a), vmovl_s8(vget_low_s8(b)));
    const int16x8_t second = vmulq_s16(high(a), vmovl_high_s8(b));
    return vpadalq_s16(vpadalq_s16(s, first), second);
  }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return add_products(s, f, load(b)); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return add_products(s, f, load_first(b, k));
  }
  static Sums join(Sums a, Sums b) { return vaddq_s32(a, b); }
  static std::int64_t sum(Sums s) { return vaddlvq_s32(s); }
};

template <class E>
struct RowSimd : UnbiasedRows<ByteSimd<E>>, FourByteRows {};

}  // namespace
