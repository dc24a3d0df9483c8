// Defines ByteSimd and RowSimd for AVX-512.
#pragma once

#include <immintrin.h>

#include "isa/avx512/byte_parts.hpp"
#include "isa/x86/bytes.hpp"
#include "kernels/byte_dot.hpp"

namespace {

template <class E>
struct ByteSimd : X86Bytes<ByteSimd<E>, E> {
  template <class B>
  static Register load_first(const B *p, std::size_t k) {
    return ByteSimd::widened(
        _mm256_maskz_loadu_epi8(static_cast<__mmask32>(_bzhi_u32(~0u, static_cast<unsigned>(k))), p), p);
  }
  static std::int64_t sum(Register s) { return sum_of_byte_lanes(s); }
};

template <class E>
struct RowSimd : UnbiasedRows<ByteSimd<E>>, FourByteRows {};

}  // namespace
