// Defines what AVX2 and AVX-512 have alike for the codes of quantized weights (kernels/linear/integer_tiles.hpp). Bytes
// are widened to 16 bits, because sums of pairs of products of bytes overflow 16 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "isa/x86/width.hpp"

namespace {

// f32 is the level's vector of numbers.
template <class F32>
struct X86Codes {
  using f32 = F32;

  // Inputs 0 and 2 of a quad meet the even bytes of its codes, inputs 1 and 3 the odd ones.
  using X = std::int16_t;
  static constexpr std::size_t place(std::size_t j) { return j / 2 + j % 2 * 2; }
  static constexpr std::size_t inputs_together = 4;
  static constexpr std::size_t most_rows = 4, sum_registers = 1;
  static constexpr int byte_bias = 0;
  template <std::size_t rows>
  using Quad = const X *;
  // gcc keeps an array of __m256i or __m512i in memory, where intrinsics see other lanes than the type has.
  typedef std::int32_t Sums __attribute__((vector_size(sizeof(Register))));
  struct Weights {
    Register even, odd;
  };

  static Register low_halves(Register words) {
    return RAPT_MM_SI(and)(words, RAPT_MM(set1_epi32)(0x0f0f0f0f));
  }
  static Register high_halves(Register words) { return low_halves(RAPT_MM(srli_epi32)(words, 4)); }
  static Register biased(Register words) { return words; }

  template <unsigned shift, std::size_t j>
  static Register signed_bits(Register words) {
    const Register on_top = j == 3 ? words : RAPT_MM(slli_epi32)(words, 24 - 8 * static_cast<int>(j));
    const Register in_place = RAPT_MM(srai_epi32)(on_top, 24 - static_cast<int>(shift));
    return RAPT_MM_SI(and)(in_place, RAPT_MM(set1_epi32)(static_cast<int>(0x80000000U | 127U << shift)));
  }

  static Sums start(std::int32_t n) { return Sums(RAPT_MM(set1_epi32)(n)); }
  static Weights weights(Register words) {
    return {RAPT_MM_SI(and)(words, RAPT_MM(set1_epi32)(0x00ff00ff)), RAPT_MM(srli_epi16)(words, 8)};
  }
  template <std::size_t r>
  static Sums add(Sums s, const Weights &w, Quad<0> quad) {
    return s + Sums(RAPT_MM(madd_epi16)(w.even, every_lane(quad + 4 * r))) +
           Sums(RAPT_MM(madd_epi16)(w.odd, every_lane(quad + 4 * r + 2)));
  }
  static f32 numbers(Sums s) { return RAPT_MM(cvtepi32_ps)(Register(s)); }

 protected:
  // Returns four bytes of a row in every lane.
  static Register every_lane(const void *x) {
    int word;
    std::memcpy(&word, x, sizeof word);
    return RAPT_MM(set1_epi32)(word);
  }
};

}  // namespace
