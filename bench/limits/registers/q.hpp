// Defines the registers of NEON, and the instructions whose rates are measured.
#pragma once

#include <arm_neon.h>

#include <cstdint>

namespace {

using F32 = float32x4_t;
using F64 = float64x2_t;
using Bits = uint64x2_t;
#define RAPT_LIMITS_FLOAT_REGISTER "w"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
#ifdef __ARM_FEATURE_DOTPROD
#define RAPT_LIMITS_BYTE_PRODUCTS(bits) \
  __asm__ volatile(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %0.16b, %0.16b" : "+w"(bits))
#endif
inline F32 broadcast(float value) { return vdupq_n_f32(value); }
inline F64 broadcast(double value) { return vdupq_n_f64(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return vfmaq_f32(c, a, b); }
inline F64 fma(F64 a, F64 b, F64 c) { return vfmaq_f64(c, a, b); }
inline Bits zero() { return vdupq_n_u64(0); }
inline Bits load(const char *at) { return vld1q_u64(reinterpret_cast<const std::uint64_t *>(at)); }
inline void store(char *at, Bits bits) { vst1q_u64(reinterpret_cast<std::uint64_t *>(at), bits); }
inline void store_nt(char *at, Bits bits) {  // stnp has no intrinsic; it stores a pair of 64-bit registers
  const std::uint64_t low = vgetq_lane_u64(bits, 0), high = vgetq_lane_u64(bits, 1);
  __asm__ volatile("stnp %d0, %d1, [%2]" : : "w"(low), "w"(high), "r"(at) : "memory");
}
inline void fence_nt() {}

}  // namespace
