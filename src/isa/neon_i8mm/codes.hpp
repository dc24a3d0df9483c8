// Defines what NEON with USDOT does with the codes of quantized weights. One instruction multiplies four
// inputs of unsigned codes.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "isa/neon_dotprod/codes.hpp"

namespace {

struct I8mmCodes : DotprodCodes {
  // Tiles of more than one row are matrix_tiles.hpp's.
  static constexpr std::size_t inputs_together = 8;
  static constexpr int byte_bias = 0;
  static uint32x4_t biased(uint32x4_t words) { return words; }
  using Weights = uint8x16_t;
  static Weights weights(uint32x4_t words) { return vreinterpretq_u8_u32(words); }

  // This is inline assembly, because gcc 12 and its assembler offer the instruction only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  template <std::size_t r, std::size_t rows>
  static Sums add(Sums s, Weights w, const Quad<rows> &quad) {
    __asm__(".arch armv8.2-a+i8mm\n\tusdot %0.4s, %1.16b, %2.4b[%3]"
            : "+w"(s)
            : "w"(w), "w"(quad.of[r / 4]), "i"(r % 4));
    return s;
  }
};

}  // namespace
