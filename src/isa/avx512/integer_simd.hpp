// Defines the integer vectors of AVX-512 for attention over int8.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>

#include "isa/avx512/simd.hpp"
#include "isa/x86/integer_simd.hpp"

namespace {

struct IntegerSimd : X86Integers<Avx512::f32> {
  static constexpr std::size_t score_rows = 4, value_rows = 8;
  template <std::size_t rows>
  static constexpr std::size_t column_vectors = rows <= 2   ? 4
                                                : rows <= 4 ? 2
                                                            : 1;

  static Wide widened_first(const std::int8_t *p, std::size_t k) {
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(_bzhi_u32(~0u, static_cast<unsigned>(k)), p));
  }
  static constexpr std::size_t transposed_rows = 8;

  static f32 load_parts(const float *p, std::size_t apart) {
    const __m256 low = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + apart),
                                            1),
                 high = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p + 2 * apart)),
                                             _mm_loadu_ps(p + 3 * apart), 1);
    return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
  }

  // A blend takes half of its lanes from each vector, so that an addition needs one shuffle instead of two.
  static Sums fold_quarters(const Sums (&v)[4]) {
    const Sums a = fold_halves(v[0], v[2]), b = fold_halves(v[1], v[3]);
    const __m512i other = _mm512_set_epi64(13, 12, 7, 6, 9, 8, 3, 2);
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xf0f0, a, b), _mm512_permutex2var_epi64(a, other, b));
  }
  static Sums join_quarters(const Sums (&v)[4]) {
    const Sums a = fold_pairs(v[0], v[2]), b = fold_pairs(v[1], v[3]);
    const Sums other = _mm512_shuffle_epi32(_mm512_mask_blend_epi32(0x5555, a, b), _MM_PERM_CDAB);
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xaaaa, a, b), other);
  }

  // s[0] and s[1] hold columns in alternating groups of 4. in_order() puts the groups in order.
  static void in_order(Sums (&s)[2]) {
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    const Sums low = _mm512_permutex2var_epi64(s[0], first, s[1]);
    s[1] = _mm512_permutex2var_epi64(s[0], second, s[1]);
    s[0] = low;
  }

  static Sums greater_magnitude(Sums m, f32 v) {
    return _mm512_max_epu32(m, _mm512_castps_si512(Avx512::abs(v)));
  }
  static float largest(Sums m) { return std::bit_cast<float>(_mm512_reduce_max_epu32(m)); }
  static void store_rounded(std::int16_t *to, f32 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(v)));
  }

 private:
  static Sums fold_halves(Sums a, Sums b) {
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xff00, a, b), _mm512_shuffle_i64x2(a, b, 0x4e));
  }
  static Sums fold_pairs(Sums a, Sums b) {
    const __m512d other = _mm512_shuffle_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), 0x55);
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xcccc, a, b), _mm512_castpd_si512(other));
  }
};

}  // namespace
