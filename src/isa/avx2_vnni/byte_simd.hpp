// Defines ByteSimd and RowSimd for AVX-VNNI.
#pragma once

#include <immintrin.h>

#include "isa/avx2/byte_parts.hpp"
#include "isa/x86/vnni.hpp"
#include "kernels/byte_products.hpp"

namespace {

struct Vnni : VnniBytes {
  static constexpr std::size_t together = 6;  // VPDPBUSD: latency 5, 2 per cycle, 2 per vector

  static Bytes load_first(const void *p, std::size_t k) {
    if (k < 16) return _mm256_zextsi128_si256(load_first_16(p, k));
    const auto *bytes = static_cast<const unsigned char *>(p);
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes));
    if (k == 16) return _mm256_zextsi128_si256(low);
    return _mm256_set_m128i(load_first_16(bytes + 16, k - 16), low);
  }
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
