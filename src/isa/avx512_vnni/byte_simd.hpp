// Defines ByteSimd and RowSimd for AVX512-VNNI, whose VPDPBUSD multiplies unsigned by signed bytes.
#pragma once

#include <immintrin.h>

#include "isa/avx512/byte_parts.hpp"
#include "kernels/byte_products.hpp"

namespace {

struct Vnni {
  using Bytes = __m512i;
  static constexpr std::size_t width = 64, together = 4;

  static Bytes zero() { return _mm512_setzero_si512(); }
  static Bytes load(const void *p) { return _mm512_loadu_si512(p); }
  static Bytes load_once(const void *p) {
    Bytes v = load(p);
    __asm__("" : "+v"(v));
    return v;
  }
  static Bytes load_first(const void *p, std::size_t k) {
    return _mm512_maskz_loadu_epi8(_bzhi_u64(~std::uint64_t{0}, k), p);
  }
  // load_quarters() loads four rows of up to 16 bytes. repeat_quarter() loads one such row and repeats it
  // four times.
  static constexpr std::size_t quarter = 16;
  static Bytes load_quarters(const std::int8_t *const (&row)[4], std::size_t k) {
    const auto first = static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<unsigned>(k)));
    const auto load = [=](const std::int8_t *p) { return _mm_maskz_loadu_epi8(first, p); };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(load(row[0])), load(row[1]), 1),
                  high = _mm256_inserti128_si256(_mm256_castsi128_si256(load(row[2])), load(row[3]), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static Bytes repeat_quarter(const void *p, std::size_t k) {
    const auto first = static_cast<__mmask16>(_bzhi_u32(0xffff, static_cast<unsigned>(k)));
    return _mm512_broadcast_i32x4(_mm_maskz_loadu_epi8(first, p));
  }
  static Bytes bias() { return _mm512_set1_epi8(-128); }
  static Bytes biased(Bytes b) { return _mm512_xor_si512(b, bias()); }
  static Bytes add_products(Bytes s, Bytes f, Bytes b) {
    s = _mm512_dpbusd_epi32(s, f, b);
    __asm__("" : "+v"(s));  // otherwise gcc 12 copies every accumulator in every iteration
    return s;
  }
  static Bytes add_biased_products(Bytes s, Bytes f, Bytes b) { return add_products(s, b, f); }
  static Bytes join(Bytes a, Bytes b) { return _mm512_add_epi32(a, b); }
  static Bytes less(Bytes a, Bytes b) { return _mm512_sub_epi32(a, b); }
  static std::int64_t sum(Bytes s) { return sum_of_byte_lanes(s); }
};

template <>
struct ByteSimd<std::uint8_t> : DirectBytes<Vnni, std::uint8_t> {
  // accumulators | ns for 256 bytes | 12288 bytes
  // 4            | 4.1              | 75
  // 6 (this)     | 4.2              | 72
  // 8            | 5.3              | 67
  static constexpr std::size_t together = 6;
};
template <>
struct ByteSimd<std::int8_t> : BiasedBytes<Vnni, std::int8_t> {};
template <>
struct RowSimd<std::uint8_t> : DirectBytes<Vnni, std::uint8_t>, FourByteRows {};
template <>
struct RowSimd<std::int8_t> : BiasedRows<Vnni, std::int8_t>, FourByteRows {};

}  // namespace
