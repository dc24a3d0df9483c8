// Names intrinsics by what they do, for operations that AVX2 and AVX-512 have alike. A level's flags say how wide its
// registers are: the files of isa/x86 are compiled for each x86 level.
#pragma once

#include <immintrin.h>

// For example, RAPT_MM(add_epi32) is _mm512_add_epi32 or _mm256_add_epi32, RAPT_MM_SI(and) is _mm512_and_si512 or
// _mm256_and_si256, and RAPT_HALF_SI(loadu) loads half a register.
#ifdef __AVX512F__
#define RAPT_MM(operation) _mm512_##operation
#define RAPT_MM_SI(operation) _mm512_##operation##_si512
#define RAPT_HALF_SI(operation) _mm256_##operation##_si256
#else
#define RAPT_MM(operation) _mm256_##operation
#define RAPT_MM_SI(operation) _mm256_##operation##_si256
#define RAPT_HALF_SI(operation) _mm_##operation##_si128
#endif

namespace {

#ifdef __AVX512F__
using Register = __m512i;
using HalfRegister = __m256i;
#else
using Register = __m256i;
using HalfRegister = __m128i;
#endif

}  // namespace
