// Defines what AVX-VNNI does with the codes of quantized weights. One instruction multiplies four inputs.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "isa/avx2/codes.hpp"

namespace {

struct VnniCodes : CodeSimd {
  using X = std::int8_t;
  template <std::size_t rows>
  using Quad = const X *;
  using Weights = __m256i;
  static constexpr std::size_t place(std::size_t j) { return j; }
  static constexpr std::size_t most_rows = 6;

  static Weights weights(__m256i words) { return words; }
  template <std::size_t r>
  static Sums add(Sums s, Weights w, Quad<0> quad) {
    return Sums(_mm256_dpbusd_avx_epi32(__m256i(s), w, every_lane(quad + 4 * r)));
  }
};

}  // namespace
