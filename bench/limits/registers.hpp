// A register of each level, and the few instructions that the limits are about.
#pragma once

#include <cstdint>

#if defined(RAPT_LIMITS_avx2) || defined(RAPT_LIMITS_avx512)
#include <immintrin.h>
#elif defined(RAPT_LIMITS_neon)
#include <arm_neon.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

#if defined(RAPT_LIMITS_avx512)

using F32 = __m512;
using F64 = __m512d;
using Bits = __m512i;
#define RAPT_LIMITS_FLOAT_REGISTER "v"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
inline F32 broadcast(float value) { return _mm512_set1_ps(value); }
inline F64 broadcast(double value) { return _mm512_set1_pd(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
inline F64 fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
inline Bits zero() { return _mm512_setzero_si512(); }
inline Bits load(const char *at) { return _mm512_load_si512(at); }
inline void store(char *at, Bits bits) { _mm512_store_si512(at, bits); }
inline void store_nt(char *at, Bits bits) { _mm512_stream_si512(reinterpret_cast<Bits *>(at), bits); }
inline void fence_nt() { _mm_sfence(); }

#elif defined(RAPT_LIMITS_avx2)

using F32 = __m256;
using F64 = __m256d;
using Bits = __m256i;
#define RAPT_LIMITS_FLOAT_REGISTER "x"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
inline F32 broadcast(float value) { return _mm256_set1_ps(value); }
inline F64 broadcast(double value) { return _mm256_set1_pd(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
inline F64 fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
inline Bits zero() { return _mm256_setzero_si256(); }
inline Bits load(const char *at) { return _mm256_load_si256(reinterpret_cast<const Bits *>(at)); }
inline void store(char *at, Bits bits) { _mm256_store_si256(reinterpret_cast<Bits *>(at), bits); }
inline void store_nt(char *at, Bits bits) { _mm256_stream_si256(reinterpret_cast<Bits *>(at), bits); }
inline void fence_nt() { _mm_sfence(); }

#elif defined(RAPT_LIMITS_neon)

using F32 = float32x4_t;
using F64 = float64x2_t;
using Bits = uint64x2_t;
#define RAPT_LIMITS_FLOAT_REGISTER "w"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
inline F32 broadcast(float value) { return vdupq_n_f32(value); }
inline F64 broadcast(double value) { return vdupq_n_f64(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return vfmaq_f32(c, a, b); }
inline F64 fma(F64 a, F64 b, F64 c) { return vfmaq_f64(c, a, b); }
inline Bits zero() { return vdupq_n_u64(0); }
inline Bits load(const char *at) { return vld1q_u64(reinterpret_cast<const std::uint64_t *>(at)); }
inline void store(char *at, Bits bits) { vst1q_u64(reinterpret_cast<std::uint64_t *>(at), bits); }
inline void store_nt(char *at, Bits bits) {  // stnp has no intrinsic; it takes pairs: half a register each
  const std::uint64_t low = vgetq_lane_u64(bits, 0), high = vgetq_lane_u64(bits, 1);
  __asm__ volatile("stnp %d0, %d1, [%2]" : : "w"(low), "w"(high), "r"(at) : "memory");
}
inline void fence_nt() {}

#else  // one element at a time, a multiplication and an addition for want of a fused one

using F32 = float;
using F64 = double;
using Bits = std::uint64_t;
#if defined(__SSE2__)
#define RAPT_LIMITS_FLOAT_REGISTER "x"
#else
#define RAPT_LIMITS_FLOAT_REGISTER "w"
#endif
#define RAPT_LIMITS_BITS_REGISTER "r"
inline F32 broadcast(float value) { return value; }
inline F64 broadcast(double value) { return value; }
inline F32 fma(F32 a, F32 b, F32 c) { return a * b + c; }
inline F64 fma(F64 a, F64 b, F64 c) { return a * b + c; }
inline Bits zero() { return 0; }
inline Bits load(const char *at) { return *reinterpret_cast<const Bits *>(at); }
inline void store(char *at, Bits bits) { *reinterpret_cast<Bits *>(at) = bits; }
#if defined(__SSE2__)
inline void store_nt(char *at, Bits bits) {
  _mm_stream_si64(reinterpret_cast<long long *>(at), static_cast<long long>(bits));
}
inline void fence_nt() { _mm_sfence(); }
#else
inline void store_nt(char *at, Bits bits) { store(at, bits); }
inline void fence_nt() {}
#endif

#endif

}  // namespace
