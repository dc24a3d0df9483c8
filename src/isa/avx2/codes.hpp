// Defines what AVX2 does with the codes of quantized weights.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "isa/avx2/simd.hpp"
#include "isa/x86/codes.hpp"

namespace {

struct CodeSimd : X86Codes<Avx2::f32> {
  static constexpr bool prefers_tables = false;
  // A permutation reads 8 elements. The indices' bit 3 chooses between two.
  static f32 look_up(const float *table, __m256i indices) {
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), indices),
                 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), indices);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(indices, 28)));
  }

  static __m256i look_up_bytes(const std::uint8_t *table, __m256i indices) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i *>(table));
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), indices);
  }

  template <int mask, int flip = 0>
  static f32 with_magic(__m256i code) {
    const __m256i masked = _mm256_and_si256(code, _mm256_set1_epi32(mask));
    return _mm256_castsi256_ps(_mm256_xor_si256(masked, _mm256_set1_epi32(0x4b000000 | flip)));
  }

  // Returns 8 codes of 4 bits that follow each other, in the low bits of words.
  static __m256i pairs(const std::uint8_t *codes) {
    return _mm256_srlv_epi32(every_lane(codes), _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
  }
};

}  // namespace
