// Defines the numbers of 8 bits that weights may have: a sign, an exponent of 4 or 5 bits, and a mantissa.
//
//   type   | exponent | bias | specials
//   E4M3   | 4 bits   | 7    | 0x7f and 0xff are NaN, nothing is infinite
//   E5M2   | 5 bits   | 15   | as in IEEE 754
//
// The product with factor() has a subnormal operand where the code is subnormal, which costs some CPUs an assist. Of a
// layer whose largest number is 448, about one in 10000 is such.
//
// Kernels make the same two steps (kernels/linear/codes.hpp). Powers of 2 are exact, because f32 has all these numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "rapt/rapt.h"

namespace rapt {

struct F8 {
  unsigned exponent_bits = 0;

  constexpr explicit operator bool() const { return exponent_bits != 0; }
  static constexpr F8 of(rapt_type type) {
    return {type == RAPT_F8_E4M3 ? 4U : type == RAPT_F8_E5M2 ? 5U : 0U};
  }

  // A code shifted so far up is the f32 of its number divided by factor(), which may be subnormal.
  constexpr unsigned shift() const { return 16 + exponent_bits; }
  constexpr float factor() const { return exponent_bits == 4 ? 0x1p120f : 0x1p112f; }
  // Codes without sign from here on are NaN or infinite.
  constexpr unsigned first_special() const { return exponent_bits == 4 ? 0x7f : 0x7c; }
  static constexpr std::uint32_t exponent_of_specials = 0x7f800000;

  constexpr bool is_special(std::uint8_t code) const { return (code & 127U) >= first_special(); }
  float number(std::uint8_t code) const {
    const std::uint32_t magnitude = code & 127U, sign = code & 128U;
    const auto bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << shift()) * factor());
    return std::bit_cast<float>(bits | sign << 24 | (is_special(code) ? exponent_of_specials : 0));
  }
};

}  // namespace rapt
