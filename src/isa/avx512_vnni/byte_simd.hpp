// Defines ByteSimd and RowSimd for AVX512-VNNI.
#pragma once

#include <immintrin.h>

#include "isa/avx512/byte_parts.hpp"
#include "isa/x86/vnni.hpp"
#include "kernels/byte_products.hpp"

namespace {

struct Vnni : VnniBytes {
  static constexpr std::size_t together = 4;

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
