// Defines registers of one element for the scalar level, and the instructions whose rates are measured. fma()
// is a multiplication and an addition if the level has no fused multiply-add.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace {

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

}  // namespace
