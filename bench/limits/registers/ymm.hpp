// Defines the registers of AVX2 with FMA, and the instructions whose rates are measured.
#pragma once

#include <immintrin.h>

namespace {

using F32 = __m256;
using F64 = __m256d;
using Bits = __m256i;
#define RAPT_LIMITS_FLOAT_REGISTER "x"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
#ifdef __AVXVNNI__
#define RAPT_LIMITS_BYTE_PRODUCTS(bits) __asm__ volatile("%{vex%} vpdpbusd %0, %0, %0" : "+x"(bits))
#endif
inline F32 broadcast(float value) { return _mm256_set1_ps(value); }
inline F64 broadcast(double value) { return _mm256_set1_pd(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
inline F64 fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
inline Bits zero() { return _mm256_setzero_si256(); }
inline Bits load(const char *at) { return _mm256_load_si256(reinterpret_cast<const Bits *>(at)); }
inline void store(char *at, Bits bits) { _mm256_store_si256(reinterpret_cast<Bits *>(at), bits); }
inline void store_nt(char *at, Bits bits) { _mm256_stream_si256(reinterpret_cast<Bits *>(at), bits); }
inline void fence_nt() { _mm_sfence(); }

}  // namespace
