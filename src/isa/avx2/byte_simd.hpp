// Defines ByteSimd and RowSimd for AVX2. Bytes are widened to 16 bits, and their products are added in pairs.
#pragma once

#include <immintrin.h>

#include "isa/avx2/byte_parts.hpp"
#include "kernels/byte_dot.hpp"

namespace {

template <class E>
struct ByteSimd {
  using Sums = __m256i;
  using Factors = __m256i;
  static constexpr std::size_t width = 16, together = 4, most_per_step = 2 * 255 * 128;

  static Sums zero() { return _mm256_setzero_si256(); }
  static __m256i widened(__m128i v, const std::int8_t *) { return _mm256_cvtepi8_epi16(v); }
  static __m256i widened(__m128i v, const std::uint8_t *) { return _mm256_cvtepu8_epi16(v); }
  template <class B>
  static __m256i load(const B *p) {
    return widened(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)), p);
  }
  template <class B>
  static __m256i load_first(const B *p, std::size_t k) {
    return widened(load_first_16(p, k), p);
  }
  static Factors factors(const E *a) { return load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return load_first(a, k); }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return join(s, _mm256_madd_epi16(f, load(b))); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return join(s, _mm256_madd_epi16(f, load_first(b, k)));
  }
  static Sums join(Sums a, Sums b) { return _mm256_add_epi32(a, b); }
  static std::int64_t sum(Sums s) { return sum_of_byte_lanes(s); }
};

template <class E>
struct RowSimd : UnbiasedRows<ByteSimd<E>>, FourByteRows {};

}  // namespace
