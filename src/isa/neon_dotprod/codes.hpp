// Defines what NEON with SDOT does with the codes of quantized weights. One instruction multiplies four
// inputs.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

#include "isa/neon/codes.hpp"

namespace {

struct DotprodCodes : NeonCodes {
  static constexpr std::size_t most_rows = 6, sum_registers = 1;
  using Sums = int32x4_t;

  static Sums start(std::int32_t n) { return vdupq_n_s32(n); }
  static Sums add(Sums s, Weights w, const X *x) {
    const int8x16_t inputs = every_lane(x);
    __asm__(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(w), "w"(inputs));
    return s;
  }
  static f32 numbers(Sums s) { return vcvtq_f32_s32(s); }
};

}  // namespace
