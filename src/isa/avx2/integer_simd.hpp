// Defines the integer vectors of AVX2 for attention over int8.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "isa/avx2/byte_parts.hpp"
#include "isa/avx2/simd.hpp"
#include "isa/x86/integer_simd.hpp"

namespace {

struct IntegerSimd : X86Integers<Avx2::f32> {
  static constexpr std::size_t score_rows = 2, value_rows = 4;
  template <std::size_t rows>
  static constexpr std::size_t column_vectors = rows <= 2 ? 2 : 1;

  static Wide widened_first(const std::int8_t *p, std::size_t k) {
    return _mm256_cvtepi8_epi16(load_first_16(p, k));
  }
  static constexpr std::size_t transposed_rows = 4;

  static f32 load_parts(const float *p, std::size_t apart) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + apart), 1);
  }

  // A blend takes half of its lanes from each vector, so that an addition needs one shuffle instead of two.
  static Sums fold_quarters(const Sums (&v)[4]) {
    const Sums a = fold_halves(v[0], v[2]), b = fold_halves(v[1], v[3]);
    const __m256d other = _mm256_shuffle_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b), 5);
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xcc), _mm256_castpd_si256(other));
  }
  static Sums join_quarters(const Sums (&v)[2]) {
    const Sums other = _mm256_shuffle_epi32(_mm256_blend_epi32(v[1], v[0], 0xaa), 0xb1);
    return _mm256_add_epi32(_mm256_blend_epi32(v[0], v[1], 0xaa), other);
  }

  // s[0] and s[1] hold columns in alternating groups of 4. in_order() puts the groups in order.
  static void in_order(Sums (&s)[2]) {
    const Sums low = _mm256_permute2x128_si256(s[0], s[1], 0x20);
    s[1] = _mm256_permute2x128_si256(s[0], s[1], 0x31);
    s[0] = low;
  }

  static Sums greater_magnitude(Sums m, f32 v) {
    return _mm256_max_epu32(m, _mm256_and_si256(_mm256_castps_si256(v), _mm256_set1_epi32(0x7fffffff)));
  }
  static float largest(Sums m) {
    __m128i most = _mm_max_epu32(_mm256_castsi256_si128(m), _mm256_extracti128_si256(m, 1));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4e));
    most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0xb1));
    return std::bit_cast<float>(_mm_cvtsi128_si32(most));
  }
  static void store_rounded(std::int16_t *to, f32 v) {
    const __m256i whole = _mm256_cvtps_epi32(v);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to),
                     _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1)));
  }

 private:
  static Sums fold_halves(Sums a, Sums b) {
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xf0), _mm256_permute2x128_si256(a, b, 0x21));
  }
};

}  // namespace
