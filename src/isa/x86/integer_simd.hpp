// Defines the integer vectors that AVX2 and AVX-512 have alike for attention over int8. Bytes are widened to 16 bits,
// and their products are added in pairs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/x86/width.hpp"

namespace {

// f32 is the level's vector of numbers.
template <class F32>
struct X86Integers {
  using Sums = Register;
  using Wide = Register;
  using f32 = F32;
  static constexpr std::size_t wide = sizeof(Register) / sizeof(std::int16_t);

  static Sums zero() { return RAPT_MM_SI(setzero)(); }
  static Wide load(const std::int16_t *p) { return RAPT_MM_SI(loadu)(reinterpret_cast<const Register *>(p)); }
  static Wide widened(const std::int8_t *p) {
    return RAPT_MM(cvtepi8_epi16)(RAPT_HALF_SI(loadu)(reinterpret_cast<const HalfRegister *>(p)));
  }
  static Sums add_products(Sums s, Wide a, Wide b) {
    return RAPT_MM(add_epi32)(s, RAPT_MM(madd_epi16)(a, b));
  }
  // even_bytes() widens the first and the third byte of each word to 16 bits. odd_bytes() widens the second
  // and the fourth.
  static Wide even_bytes(f32 words) {
    return RAPT_MM(srai_epi16)(RAPT_MM(slli_epi16)(RAPT_MM_SI(castps)(words), 8), 8);
  }
  static Wide odd_bytes(f32 words) { return RAPT_MM(srai_epi16)(RAPT_MM_SI(castps)(words), 8); }
  static f32 numbers(Sums s) { return RAPT_MM(cvtepi32_ps)(s); }

  struct Columns {
    Wide low, high;
  };
  static Columns columns(Wide a, Wide b) {
    return {RAPT_MM(unpacklo_epi16)(a, b), RAPT_MM(unpackhi_epi16)(a, b)};
  }
  static Wide pair(const std::int16_t *p) {
    int both;
    std::memcpy(&both, p, sizeof both);
    return RAPT_MM(set1_epi32)(both);
  }
  static void add_columns(Sums (&s)[2], const Columns &c, Wide pair) {
    s[0] = add_products(s[0], c.low, pair);
    s[1] = add_products(s[1], c.high, pair);
  }
};

}  // namespace
