// Defines what AVX-512 does with the codes of quantized weights.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

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

  template <int mask, int flip = 0>
  static f32 with_magic(__m512i code) {
    constexpr int a_and_b_xor_c = 0x6a;
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        code, _mm512_set1_epi32(mask), _mm512_set1_epi32(0x4b000000 | flip), a_and_b_xor_c));
  }

  // Returns 16 codes of 4 bits that follow each other, in the low bits of words.
  static __m512i pairs(const std::uint8_t *codes) {
    int second;
    std::memcpy(&second, codes + 4, sizeof second);
    const __m512i words = _mm512_mask_set1_epi32(every_lane(codes), 0xff00, second);
    const __m512i shifts = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_srlv_epi32(words, shifts);
  }
};

}  // namespace
