// Multiplies codes of fewer than 8 bits by bytes. VPMADDUBSW adds the products of two in 16 bits, where it would saturate for
// bytes, and so do a few such sums (quads_of_pairs in kernels/linear/integer_tiles.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa/x86/width.hpp"

namespace {

// Codes is the CodeSimd of the level.
template <class Codes>
struct SmallCodes : Codes {
  using Sums = typename Codes::Sums;
  using X = std::int8_t;
  template <std::size_t rows>
  using Quad = const X *;
  using Weights = Register;
  typedef std::int16_t Pairs __attribute__((vector_size(sizeof(Register))));
  static constexpr std::size_t place(std::size_t j) { return j; }

  static Weights weights(Register words) { return words; }
  template <std::size_t r>
  static Pairs pairs(Weights w, Quad<0> quad) {
    return Pairs(RAPT_MM(maddubs_epi16)(w, Codes::every_lane(quad + 4 * r)));
  }
  static Pairs sum_of_pairs(Pairs a, Pairs b) {
    Pairs sum = a + b;
    __asm__("" : "+v"(sum));  // otherwise gcc 12 keeps all products in memory, and adds them in the end
    return sum;
  }
  static Sums add_pairs(Sums s, Pairs pairs) {
    return s + Sums(RAPT_MM(madd_epi16)(Register(pairs), RAPT_MM(set1_epi16)(1)));
  }
};

}  // namespace
