// Defines what AVX-512 does with the codes of quantized weights.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "isa/avx512/simd.hpp"
#include "isa/x86/codes.hpp"

namespace {

struct CodeSimd : X86Codes<Avx512::f32> {
  // A table takes one instruction, where taking a zero off needs two.
  static constexpr bool prefers_tables = true;
  static f32 look_up(const float *table, __m512i indices) {
    return _mm512_permutexvar_ps(indices, _mm512_load_ps(table));
  }

  static __m512i look_up_bytes(const std::uint8_t *table, __m512i indices) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i *>(table));
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), indices);
  }

  template <int mask>
  static f32 with_magic(__m512i code) {
    constexpr int a_and_b_or_c = 0xea;
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(code, _mm512_set1_epi32(mask),
                                                         _mm512_set1_epi32(0x4b000000), a_and_b_or_c));
  }
};

}  // namespace
