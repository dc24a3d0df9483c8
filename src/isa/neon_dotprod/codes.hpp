// Defines what NEON with SDOT does with the codes of quantized weights. One instruction multiplies four
// inputs.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "isa/neon/codes.hpp"
#include "kernels/vector/inner.hpp"

namespace {

struct DotprodCodes : CodeSimd {
  static constexpr std::size_t most_rows = 6, sum_registers = 1;
  using Sums = int32x4_t;

  // A vector has the quads of four rows. SDOT multiplies by one of its lanes, so none is broadcast. The vector
  // of the last rows reaches up to 12 bytes past them, where other numbers of the workspace follow.
  template <std::size_t rows>
  struct Quad {
    explicit Quad(const X *x) {
      unroll<(rows + 3) / 4>([&](std::size_t i) RAPT_INNER { of[i] = vld1q_s8(x + 16 * i); });
    }
    int8x16_t of[(rows + 3) / 4];
  };

  static Sums start(std::int32_t n) { return vdupq_n_s32(n); }
  // This is inline assembly, because gcc 12 and its assembler offer the instruction only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  template <std::size_t r, std::size_t rows>
  static Sums add(Sums s, Weights w, const Quad<rows> &quad) {
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.4b[%3]"
            : "+w"(s)
            : "w"(w), "w"(quad.of[r / 4]), "i"(r % 4));
    return s;
  }
  static f32 numbers(Sums s) { return vcvtq_f32_s32(s); }
};

}  // namespace
