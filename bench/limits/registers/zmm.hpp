// Defines the registers of AVX-512, and the instructions whose rates are measured.
#pragma once

#include <immintrin.h>

namespace {

using F32 = __m512;
using F64 = __m512d;
using Bits = __m512i;
#define RAPT_LIMITS_FLOAT_REGISTER "v"
#define RAPT_LIMITS_BITS_REGISTER RAPT_LIMITS_FLOAT_REGISTER
#ifdef __AVX512VNNI__
#define RAPT_LIMITS_BYTE_PRODUCTS(bits) __asm__ volatile("vpdpbusd %0, %0, %0" : "+v"(bits))
#endif
inline F32 broadcast(float value) { return _mm512_set1_ps(value); }
inline F64 broadcast(double value) { return _mm512_set1_pd(value); }
inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
inline F64 fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
inline Bits zero() { return _mm512_setzero_si512(); }
inline Bits load(const char *at) { return _mm512_load_si512(at); }
inline void store(char *at, Bits bits) { _mm512_store_si512(at, bits); }
inline void store_nt(char *at, Bits bits) { _mm512_stream_si512(reinterpret_cast<Bits *>(at), bits); }
inline void fence_nt() { _mm_sfence(); }

}  // namespace
