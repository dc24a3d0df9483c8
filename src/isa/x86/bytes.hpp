// Defines what AVX2 and AVX-512 have alike for dot products of bytes. Bytes are widened to 16 bits, and their products
// are added in pairs.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/x86/width.hpp"

namespace {

// Level is the level's ByteSimd<E>, which derives from this one. It has load_first(p, k) and sum(s).
template <class Level, class E>
struct X86Bytes {
  using Sums = Register;
  using Factors = Register;
  static constexpr std::size_t width = sizeof(HalfRegister), together = 4, most_per_step = 2 * 255 * 128;

  static Sums zero() { return RAPT_MM_SI(setzero)(); }
  static Register widened(HalfRegister v, const std::int8_t *) { return RAPT_MM(cvtepi8_epi16)(v); }
  static Register widened(HalfRegister v, const std::uint8_t *) { return RAPT_MM(cvtepu8_epi16)(v); }
  template <class B>
  static Register load(const B *p) {
    return widened(RAPT_HALF_SI(loadu)(reinterpret_cast<const HalfRegister *>(p)), p);
  }
  static Factors factors(const E *a) { return load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return Level::load_first(a, k); }
  static Sums add(Sums s, Factors f, const std::int8_t *b) {
    return join(s, RAPT_MM(madd_epi16)(f, load(b)));
  }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return join(s, RAPT_MM(madd_epi16)(f, Level::load_first(b, k)));
  }
  static Sums join(Sums a, Sums b) { return RAPT_MM(add_epi32)(a, b); }
};

}  // namespace
