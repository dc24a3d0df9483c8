// Defines vectors for NEON with BFMLALB and BFMLALT. These instructions multiply the even or the odd bf16 of
// one vector by those of another vector, or by one element. They add the products to f32. Arm defines both as
// FMLA of the widened elements, under all controls and flags of FPCR and FPSR. So their results have the same
// bits as FMLA's, and FlushGuard (kernels/flushes.hpp) detects their flushes.
#pragma once

#include <arm_neon.h>

#include "isa/neon/byte_parts.hpp"
#include "isa/neon/simd.hpp"

namespace {

struct NeonBf16 {
  using f32 = Neon::f32;
  using Halves = uint16x8_t;
  static constexpr std::size_t width = 8;

  static Halves load(const rapt::BF16 *p) { return vld1q_u16(Neon::halves(p)); }
  static Halves load_first(const rapt::BF16 *p, std::size_t k) {
    return vreinterpretq_u16_u8(load_first_16(p, 2 * k));
  }
  static Halves halves(f32 v) { return vreinterpretq_u16_f32(v); }

  // This is inline assembly, because gcc 12 and its assembler offer the instructions only for Armv8.2.
  // Compiling for Armv8.2 would require more features of the CPU.
  static f32 add_even(float32x4_t sum, Halves a, Halves b) {
    __asm__(".arch armv8.2-a+bf16\n\tbfmlalb %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
  }
  static f32 add_odd(float32x4_t sum, Halves a, Halves b) {
    __asm__(".arch armv8.2-a+bf16\n\tbfmlalt %0.4s, %1.8h, %2.8h" : "+w"(sum) : "w"(a), "w"(b));
    return sum;
  }
  // Multiplies by one lane of f32 numbers that are exact in bf16, so the upper half of the lane is the bf16.
  // The instruction can read an element only from the first 16 registers.
  template <int lane>
  static f32 add_even_by_lane(float32x4_t sum, Halves a, float32x4_t numbers) {
    __asm__(".arch armv8.2-a+bf16\n\tbfmlalb %0.4s, %1.8h, %2.h[%3]"
            : "+w"(sum)
            : "w"(a), "x"(numbers), "i"(2 * lane + 1));
    return sum;
  }
  template <int lane>
  static f32 add_odd_by_lane(float32x4_t sum, Halves a, float32x4_t numbers) {
    __asm__(".arch armv8.2-a+bf16\n\tbfmlalt %0.4s, %1.8h, %2.h[%3]"
            : "+w"(sum)
            : "w"(a), "x"(numbers), "i"(2 * lane + 1));
    return sum;
  }
};

}  // namespace
