// Defines what AVX2 does with the codes of quantized weights (kernels/linear/integer_tiles.hpp). Bytes are
// widened to 16 bits, because sums of pairs of products of bytes overflow 16 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/avx2/simd.hpp"

namespace {

struct CodeSimd {
  using f32 = Avx2::f32;

  static constexpr bool prefers_tables = false;
  // A permutation reads 8 elements. The indices' bit 3 chooses between two.
  static f32 look_up(const float *table, __m256i indices) {
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(table), indices),
                 high = _mm256_permutevar8x32_ps(_mm256_load_ps(table + 8), indices);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(indices, 28)));
  }

  template <int mask>
  static f32 with_magic(__m256i code) {
    const __m256i masked = _mm256_and_si256(code, _mm256_set1_epi32(mask));
    return _mm256_castsi256_ps(_mm256_or_si256(masked, _mm256_set1_epi32(0x4b000000)));
  }

  // Inputs 0 and 2 of a quad meet the even bytes of its codes, inputs 1 and 3 the odd ones.
  using X = std::int16_t;
  static constexpr std::size_t place(std::size_t j) { return j / 2 + j % 2 * 2; }
  static constexpr std::size_t inputs_together = 4;
  static constexpr std::size_t most_rows = 4, sum_registers = 1;
  static constexpr int byte_bias = 0;
  template <std::size_t rows>
  using Quad = const X *;
  // gcc keeps an array of __m256i in memory, where intrinsics see other lanes than the type has.
  typedef std::int32_t Sums __attribute__((vector_size(32)));
  struct Weights {
    __m256i even, odd;
  };

  static __m256i low_halves(__m256i words) { return _mm256_and_si256(words, _mm256_set1_epi32(0x0f0f0f0f)); }
  static __m256i high_halves(__m256i words) { return low_halves(_mm256_srli_epi32(words, 4)); }
  static __m256i biased(__m256i words) { return words; }

  static Sums start(std::int32_t n) { return Sums(_mm256_set1_epi32(n)); }
  static Weights weights(__m256i words) {
    return {_mm256_and_si256(words, _mm256_set1_epi32(0x00ff00ff)), _mm256_srli_epi16(words, 8)};
  }
  template <std::size_t r>
  static Sums add(Sums s, const Weights &w, Quad<0> quad) {
    return s + Sums(_mm256_madd_epi16(w.even, every_lane(quad + 4 * r))) +
           Sums(_mm256_madd_epi16(w.odd, every_lane(quad + 4 * r + 2)));
  }
  static f32 numbers(Sums s) { return _mm256_cvtepi32_ps(__m256i(s)); }

 protected:
  // Returns four bytes of a row in every lane.
  static __m256i every_lane(const void *x) {
    int word;
    std::memcpy(&word, x, sizeof word);
    return _mm256_set1_epi32(word);
  }
};

}  // namespace
