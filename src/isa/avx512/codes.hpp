// Defines what AVX-512 does with the codes of quantized weights (kernels/linear/integer_tiles.hpp). Bytes are
// widened to 16 bits, because sums of pairs of products of bytes overflow 16 bits.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/avx512/simd.hpp"

namespace {

struct CodeSimd {
  using f32 = Avx512::f32;

  // A table takes one instruction, where taking a zero off needs two.
  static constexpr bool prefers_tables = true;
  static f32 look_up(const float *table, __m512i indices) {
    return _mm512_permutexvar_ps(indices, _mm512_load_ps(table));
  }

  template <int mask>
  static f32 with_magic(__m512i code) {
    constexpr int a_and_b_or_c = 0xea;
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(code, _mm512_set1_epi32(mask),
                                                         _mm512_set1_epi32(0x4b000000), a_and_b_or_c));
  }

  // Inputs 0 and 2 of a quad meet the even bytes of its codes, inputs 1 and 3 the odd ones.
  using X = std::int16_t;
  static constexpr std::size_t place(std::size_t j) { return j / 2 + j % 2 * 2; }
  static constexpr std::size_t inputs_together = 4;
  static constexpr std::size_t most_rows = 4, sum_registers = 1;
  static constexpr int byte_bias = 0;
  template <std::size_t rows>
  using Quad = const X *;
  // gcc keeps an array of __m512i in memory, where intrinsics see other lanes than the type has.
  typedef std::int32_t Sums __attribute__((vector_size(64)));
  struct Weights {
    __m512i even, odd;
  };

  static __m512i low_halves(__m512i words) { return _mm512_and_si512(words, _mm512_set1_epi32(0x0f0f0f0f)); }
  static __m512i high_halves(__m512i words) { return low_halves(_mm512_srli_epi32(words, 4)); }
  static __m512i biased(__m512i words) { return words; }

  static Sums start(std::int32_t n) { return Sums(_mm512_set1_epi32(n)); }
  static Weights weights(__m512i words) {
    return {_mm512_and_si512(words, _mm512_set1_epi32(0x00ff00ff)), _mm512_srli_epi16(words, 8)};
  }
  template <std::size_t r>
  static Sums add(Sums s, const Weights &w, Quad<0> quad) {
    return s + Sums(_mm512_madd_epi16(w.even, every_lane(quad + 4 * r))) +
           Sums(_mm512_madd_epi16(w.odd, every_lane(quad + 4 * r + 2)));
  }
  static f32 numbers(Sums s) { return _mm512_cvtepi32_ps(__m512i(s)); }

 protected:
  // Returns four bytes of a row in every lane.
  static __m512i every_lane(const void *x) {
    int word;
    std::memcpy(&word, x, sizeof word);
    return _mm512_set1_epi32(word);
  }
};

}  // namespace
