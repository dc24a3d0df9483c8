// Adds up sums of byte products on AVX-512. The sums are in lanes of 32 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace {

inline std::int64_t sum_of_byte_lanes(__m512i s) {
  const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(s)),
                high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(s, 1));
  return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

// Only one port runs shuffles, but two run blends and additions. So blends replace shuffles wherever
// possible.
struct FourByteRows {
  using Four = __m512i;  // each quarter holds a part of each of four sums
  static constexpr std::size_t fours = 4;

  static Four four(const __m512i (&s)[4]) {
    const __m512i first = halved(s[0], s[1]), second = halved(s[2], s[3]);
    const __m512 a = _mm512_castsi512_ps(first), b = _mm512_castsi512_ps(second);
    return _mm512_add_epi32(_mm512_castps_si512(_mm512_shuffle_ps(a, b, 0x88)),
                            _mm512_castps_si512(_mm512_shuffle_ps(a, b, 0xdd)));
  }
  static void store(const Four (&four)[fours], float scale, float *out, std::size_t count) {
    const __m512i first = quartered(four[0], four[1]), second = quartered(four[2], four[3]);
    const __m512i sums = _mm512_add_epi32(_mm512_shuffle_i64x2(first, second, 0x88),
                                          _mm512_shuffle_i64x2(first, second, 0xdd));
    _mm512_mask_storeu_ps(out, static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<unsigned>(count))),
                          _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(sums)));
  }
  // Stores the sums of 16 rows, each of which has one quarter of a vector: s[i] has the rows 4 i to 4 i + 3.
  static void store_quarters(const __m512i (&s)[4], float scale, float *out, std::size_t count) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i sums = _mm512_permutexvar_epi32(order, four(s));
    _mm512_mask_storeu_ps(out, static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<unsigned>(count))),
                          _mm512_mul_ps(_mm512_set1_ps(scale), _mm512_cvtepi32_ps(sums)));
  }

 private:
  // Adds pairs of lanes: each quarter of the result has two sums of a's lanes, then two of b's.
  static __m512i halved(__m512i a, __m512i b) {
    const __m512i crossed =
        _mm512_castpd_si512(_mm512_shuffle_pd(_mm512_castsi512_pd(a), _mm512_castsi512_pd(b), 0x55));
    return _mm512_add_epi32(_mm512_mask_blend_epi64(0xaa, a, b), crossed);
  }
  // Adds pairs of quarters: the result has two sums of a's quarters, then two of b's.
  static __m512i quartered(__m512i a, __m512i b) {
    return _mm512_add_epi32(_mm512_mask_blend_epi64(0xf0, a, b), _mm512_shuffle_i64x2(a, b, 0x4e));
  }
};

}  // namespace
