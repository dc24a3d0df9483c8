// Defines ByteSimd and RowSimd for AVX-512. Bytes are widened to 16 bits, and their products are added in
// pairs.
#pragma once

#include <immintrin.h>

#include "isa/avx512/byte_parts.hpp"
#include "kernels/byte_dot.hpp"

namespace {

template <class E>
struct ByteSimd {
  using Sums = __m512i;
  using Factors = __m512i;
  static constexpr std::size_t width = 32, together = 4, most_per_step = 2 * 255 * 128;

  static Sums zero() { return _mm512_setzero_si512(); }
  static __m512i widened(__m256i v, const std::int8_t *) { return _mm512_cvtepi8_epi16(v); }
  static __m512i widened(__m256i v, const std::uint8_t *) { return _mm512_cvtepu8_epi16(v); }
  template <class B>
  static __m512i load(const B *p) {
    return widened(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)), p);
  }
  template <class B>
  static __m512i load_first(const B *p, std::size_t k) {
    return widened(
        _mm256_maskz_loadu_epi8(static_cast<__mmask32>(_bzhi_u32(~0u, static_cast<unsigned>(k))), p), p);
  }
  static Factors factors(const E *a) { return load(a); }
  static Factors factors_first(const E *a, std::size_t k) { return load_first(a, k); }
  static Sums add(Sums s, Factors f, const std::int8_t *b) { return join(s, _mm512_madd_epi16(f, load(b))); }
  static Sums add_first(Sums s, Factors f, const std::int8_t *b, std::size_t k) {
    return join(s, _mm512_madd_epi16(f, load_first(b, k)));
  }
  static Sums join(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
  static std::int64_t sum(Sums s) { return sum_of_byte_lanes(s); }
};

template <class E>
struct RowSimd : UnbiasedRows<ByteSimd<E>>, FourByteRows {};

}  // namespace
