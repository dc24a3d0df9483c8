// Defines ByteSimd and RowSimd for AVX-VNNI, whose VPDPBUSD multiplies unsigned by signed bytes.
#pragma once

#include <immintrin.h>

#include "isa/avx2/byte_parts.hpp"
#include "kernels/byte_products.hpp"

namespace {

struct Vnni {
  using Bytes = __m256i;
  static constexpr std::size_t width = 32, together = 6;  // VPDPBUSD: latency 5, 2 per cycle, 2 per vector

  static Bytes zero() { return _mm256_setzero_si256(); }
  static Bytes load(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
  static Bytes load_once(const void *p) {
    Bytes v = load(p);
    __asm__("" : "+x"(v));
    return v;
  }
  static Bytes load_first(const void *p, std::size_t k) {
    if (k < 16) return _mm256_zextsi128_si256(load_first_16(p, k));
    const auto *bytes = static_cast<const unsigned char *>(p);
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
    if (k == 16) return _mm256_zextsi128_si256(low);
    return _mm256_set_m128i(load_first_16(bytes + 16, k - 16), low);
  }
  static Bytes bias() { return _mm256_set1_epi8(-128); }
  static Bytes biased(Bytes b) { return _mm256_xor_si256(b, bias()); }
  static Bytes add_products(Bytes s, Bytes f, Bytes b) {
    s = _mm256_dpbusd_avx_epi32(s, f, b);
    __asm__("" : "+x"(s));  // otherwise gcc 12 copies every accumulator in every iteration
    return s;
  }
  static Bytes add_biased_products(Bytes s, Bytes f, Bytes b) { return add_products(s, b, f); }
  static Bytes join(Bytes a, Bytes b) { return _mm256_add_epi32(a, b); }
  static Bytes less(Bytes a, Bytes b) { return _mm256_sub_epi32(a, b); }
  static std::int64_t sum(Bytes s) { return sum_of_byte_lanes(s); }
};

template <>
struct ByteSimd<std::uint8_t> : DirectBytes<Vnni, std::uint8_t> {};
template <>
struct ByteSimd<std::int8_t> : BiasedBytes<Vnni, std::int8_t> {};
template <>
struct RowSimd<std::uint8_t> : DirectBytes<Vnni, std::uint8_t>, FourByteRows {};
template <>
struct RowSimd<std::int8_t> : BiasedRows<Vnni, std::int8_t>, FourByteRows {};

}  // namespace
