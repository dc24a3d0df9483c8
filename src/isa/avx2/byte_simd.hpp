// AVX2: products of bytes as 16 bits, added up in pairs.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "kernels/byte_dot.hpp"

namespace {

template <class E>
struct ByteSimd {
  using Sums = __m256i;
  using Factors = __m256i;
  static constexpr std::size_t width = 16, most_per_step = 2 * 255 * 128;

  static Sums zero() { return _mm256_setzero_si256(); }
  static __m256i widened(__m128i v, const std::int8_t *) { return _mm256_cvtepi8_epi16(v); }
  static __m256i widened(__m128i v, const std::uint8_t *) { return _mm256_cvtepu8_epi16(v); }
  template <class B>
  static __m256i load(const B *p) {
    return widened(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)), p);
  }
  template <class B>
  static __m256i load_first(const B *p, std::size_t k) {
    alignas(16) B bytes[width] = {};
    std::memcpy(bytes, p, k);
    return load(bytes);
  }
  static Factors factors(const E *a) { return load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return load_first(a, k); }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return join(s, _mm256_madd_epi16(f, load(b))); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return join(s, _mm256_madd_epi16(f, load_first(b, k)));
  }
  static Sums join(Sums a, Sums b) { return _mm256_add_epi32(a, b); }
  static std::int64_t sum(Sums s) {
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(s)),
                  high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(s, 1));
    const __m256i four = _mm256_add_epi64(low, high);
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
  }
};

}  // namespace
