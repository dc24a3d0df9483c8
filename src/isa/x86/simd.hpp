// The instructions that AVX2 and AVX-512 have alike, as overloads for both arithmetic types.
#pragma once

#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "contract/types.hpp"
#include "isa/x86/flushing.hpp"
#include "isa/x86/width.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// Level is the class of a level, which derives from this one. It rounds numbers to bf16, and has number(bits).
template <class Level, class Arch>
struct X86 {
  using arch = Arch;
  using f32 = xsimd::batch<float, arch>;
  using f64 = xsimd::batch<double, arch>;
  using u32 = xsimd::batch<std::uint32_t, arch>;
  using u64 = xsimd::batch<std::uint64_t, arch>;
  using Flushing = MxcsrFlushing;

  static f32 load(const float *p) { return RAPT_MM(loadu_ps)(p); }
  static f64 load(const double *p) { return RAPT_MM(loadu_pd)(p); }
  static void store(float *p, f32 v) { RAPT_MM(storeu_ps)(p, v); }
  static void store(double *p, f64 v) { RAPT_MM(storeu_pd)(p, v); }
  static void stream(float *p, f32 v) { RAPT_MM(stream_ps)(p, v); }
  static void stream(double *p, f64 v) { RAPT_MM(stream_pd)(p, v); }
  static void end_streaming() { _mm_sfence(); }

  static f32 widened(HalfRegister v, const rapt::F16 *) { return RAPT_MM(cvtph_ps)(v); }
  static f32 widened(HalfRegister v, const rapt::BF16 *) {
    return Level::number(u32(RAPT_MM(slli_epi32)(RAPT_MM(cvtepu16_epi32)(v), 16)));
  }
  static HalfRegister narrowed(f32 v, rapt::F16 *) {
    return RAPT_MM(cvtps_ph)(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  template <Half H>
  static f32 load(const H *p) {
    return widened(RAPT_HALF_SI(loadu)(reinterpret_cast<const HalfRegister *>(p)), p);
  }
  template <Half H>
  static void store(H *p, f32 v) {
    RAPT_HALF_SI(storeu)(reinterpret_cast<HalfRegister *>(p), Level::narrowed(v, p));
  }
  template <Half H>
  static void stream(H *p, f32 v) {
    RAPT_HALF_SI(stream)(reinterpret_cast<HalfRegister *>(p), Level::narrowed(v, p));
  }
  // Widens the bf16 in the lower or the upper half of each lane.
  static f32 lower_bf16(f32 v) { return Level::number(u32(RAPT_MM(slli_epi32)(bits(v), 16))); }
  static f32 upper_bf16(f32 v) {
    return Level::number(u32(RAPT_MM_SI(and)(bits(v), RAPT_MM(set1_epi32)(-0x10000))));
  }

  // Makes gcc keep the value in a register. Otherwise gcc loads the value again for each use.
  static void keep_in_register(f32 &v) { __asm__("" : "+v"(v.data)); }

  // xsimd 8's fma is not used, because it rounds the product and then the sum.
  static f32 fma(f32 a, f32 b, f32 c) { return RAPT_MM(fmadd_ps)(a, b, c); }
  static f64 fma(f64 a, f64 b, f64 c) { return RAPT_MM(fmadd_pd)(a, b, c); }
  static f32 fnma(f32 a, f32 b, f32 c) { return RAPT_MM(fnmadd_ps)(a, b, c); }
  static f64 fnma(f64 a, f64 b, f64 c) { return RAPT_MM(fnmadd_pd)(a, b, c); }
  static f32 fms(f32 a, f32 b, f32 c) { return RAPT_MM(fmsub_ps)(a, b, c); }
  static f64 fms(f64 a, f64 b, f64 c) { return RAPT_MM(fmsub_pd)(a, b, c); }
  static f32 max(f32 a, f32 b) { return RAPT_MM(max_ps)(a, b); }
  static f64 max(f64 a, f64 b) { return RAPT_MM(max_pd)(a, b); }
  static f32 min(f32 a, f32 b) { return RAPT_MM(min_ps)(a, b); }
  static f64 min(f64 a, f64 b) { return RAPT_MM(min_pd)(a, b); }
  // x, or the limit where x is beyond it. A NaN stays, and the zero of x where the limit is the other zero.
  static f32 at_least(f32 limit, f32 x) { return max(limit, x); }
  static f64 at_least(f64 limit, f64 x) { return max(limit, x); }
  static f32 at_most(f32 limit, f32 x) { return min(limit, x); }
  static f64 at_most(f64 limit, f64 x) { return min(limit, x); }

  static f32 square_root(f32 a) { return RAPT_MM(sqrt_ps)(a); }
  static f64 square_root(f64 a) { return RAPT_MM(sqrt_pd)(a); }

  static u32 bits(f32 v) { return RAPT_MM_SI(castps)(v); }
  static u64 bits(f64 v) { return RAPT_MM_SI(castpd)(v); }

  static f32 evens_twice(f32 v) { return RAPT_MM(moveldup_ps)(v); }
  static f64 evens_twice(f64 v) { return RAPT_MM(movedup_pd)(v); }
  static f32 zip_low(f32 a, f32 b) { return RAPT_MM(unpacklo_ps)(a, b); }
  static f64 zip_low(f64 a, f64 b) { return RAPT_MM(unpacklo_pd)(a, b); }
  static f32 zip_high(f32 a, f32 b) { return RAPT_MM(unpackhi_ps)(a, b); }
  static f64 zip_high(f64 a, f64 b) { return RAPT_MM(unpackhi_pd)(a, b); }
  static f32 low_pairs(f32 a, f32 b) { return RAPT_MM(shuffle_ps)(a, b, 0x44); }
  static f32 high_pairs(f32 a, f32 b) { return RAPT_MM(shuffle_ps)(a, b, 0xee); }
  static f32 evens(f32 a, f32 b) { return RAPT_MM(shuffle_ps)(a, b, 0x88); }
  static f32 odds(f32 a, f32 b) { return RAPT_MM(shuffle_ps)(a, b, 0xdd); }
};

}  // namespace
