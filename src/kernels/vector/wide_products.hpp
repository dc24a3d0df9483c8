// Products of 32-bit integers in 64-bit lanes: an instruction of every level, which compilers do not find in a loop.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/vector/inner.hpp"

namespace {

#if defined(__AVX512F__)
inline constexpr std::size_t wide_bytes = 64;
#elif defined(__AVX2__)
inline constexpr std::size_t wide_bytes = 32;
#else
inline constexpr std::size_t wide_bytes = 16;
#endif

using WideWords = std::uint64_t __attribute__((vector_size(wide_bytes)));
inline constexpr std::size_t wide_lanes = wide_bytes / sizeof(std::uint64_t);

// Multiplies the low halves of the lanes. Their high halves may hold anything.
RAPT_INNER inline WideWords wide_products(WideWords a, std::uint32_t factor) {
#if defined(__AVX512F__)
  return reinterpret_cast<WideWords>(
      _mm512_mul_epu32(reinterpret_cast<__m512i>(a), _mm512_set1_epi64(factor)));
#elif defined(__AVX2__)
  return reinterpret_cast<WideWords>(
      _mm256_mul_epu32(reinterpret_cast<__m256i>(a), _mm256_set1_epi64x(factor)));
#else
  return reinterpret_cast<WideWords>(
      vmull_u32(vmovn_u64(reinterpret_cast<uint64x2_t>(a)), vdup_n_u32(factor)));
#endif
}

}  // namespace
