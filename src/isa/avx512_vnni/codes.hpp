// Defines what AVX-512 VNNI does with the codes of quantized weights. One instruction multiplies four inputs.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "isa/avx512/codes.hpp"

namespace {

struct VnniCodes : CodeSimd {
  using X = std::int8_t;
  template <std::size_t rows>
  using Quad = const X *;
  using Weights = __m512i;
  static constexpr std::size_t place(std::size_t j) { return j; }
  static constexpr std::size_t most_rows = 6;

  static Weights weights(__m512i words) { return words; }
  template <std::size_t r>
  static Sums add(Sums s, Weights w, Quad<0> quad) {
    return Sums(_mm512_dpbusd_epi32(__m512i(s), w, every_lane(quad + 4 * r)));
  }
};

}  // namespace
