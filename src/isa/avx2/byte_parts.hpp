// Adds up sums of byte products on AVX2. The sums are in lanes of 32 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/vector/first_bytes.hpp"

namespace {

inline __m128i load_first_16(const void *p, std::size_t k) {
  const SixteenBytes bytes = first_bytes(p, k);
  return _mm_set_epi64x(static_cast<long long>(bytes.high), static_cast<long long>(bytes.low));
}

inline std::int64_t sum_of_byte_lanes(__m256i s) {
  const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(s)),
                high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(s, 1));
  const __m256i four = _mm256_add_epi64(low, high);
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
  return _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}

struct FourByteRows {
  using Four = __m256i;  // each half holds a part of each of four sums
  static constexpr std::size_t fours = 2;

  static Four four(const __m256i (&s)[4]) {
    const __m256i first = halved(s[0], s[1]), second = halved(s[2], s[3]);
    const __m256 a = _mm256_castsi256_ps(first), b = _mm256_castsi256_ps(second);
    return _mm256_add_epi32(_mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)),
                            _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd)));
  }
  static void store(const Four (&four)[fours], float scale, float *out, std::size_t count) {
    const __m256i sums = _mm256_add_epi32(_mm256_blend_epi32(four[0], four[1], 0xf0),
                                          _mm256_permute2x128_si256(four[0], four[1], 0x21));
    const __m256 scaled = _mm256_mul_ps(_mm256_set1_ps(scale), _mm256_cvtepi32_ps(sums));
    if (count == 8) {
      _mm256_storeu_ps(out, scaled);
    } else {
      alignas(32) float sum[8];
      _mm256_store_ps(sum, scaled);
      for (std::size_t r = 0; r < count; ++r) out[r] = sum[r];
    }
  }

 private:
  // Adds pairs of lanes: each half of the result has two sums of a's lanes, then two of b's.
  static __m256i halved(__m256i a, __m256i b) {
    const __m256i crossed =
        _mm256_castpd_si256(_mm256_shuffle_pd(_mm256_castsi256_pd(a), _mm256_castsi256_pd(b), 0x5));
    return _mm256_add_epi32(_mm256_blend_epi32(a, b, 0xcc), crossed);
  }
};

}  // namespace
