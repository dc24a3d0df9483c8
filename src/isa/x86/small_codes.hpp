// Multiplies codes of fewer than 8 bits by bytes. VPMADDUBSW adds two products in 16 bits, where bytes would saturate.
// Of smaller codes even a few such sums fit (quads_of_pairs in kernels/linear/integer_tiles.hpp).
//
// What else was tried on AVX2, and its speed compared with that of this file, on a Zen 5 with 4096 inputs and outputs.
// Codes of u4 have scales of 32 inputs. Speeds are right to 3 %.
//
//   rows | way                                                  | u4  | Q5_K | Q6_K
//   1    | products in 32 bits (isa/x86/codes.hpp)              | .67 | .64  | .75
//   4    | the same                                             | .51 | .54  | .63
//   1    | each sum of two pairs is widened                     | .89 | .98  | 1
//   4    | the same                                             | .79 | .88  | 1
//   1    | 4 vectors of outputs instead of 8; from memory .8    | 1.02 | 1   | .97
//   2    | 4 vectors instead of 2                               | 1.02 | .98 | .92
//   3    | 4 vectors instead of 2                               | .83 | .87  | .81
//   4    | 1 vector instead of 2                                | .91 | 1    | 1
//   12   | tiles of 6 rows by 2 vectors                         | .85 | 1.01 | 1.02
//   12   | tiles of 6 rows by 1 vector                          | .97 | .99  | .95
//   4    | every addition of 32 bits stays in its place         | .93 | 1    | 1
//   4    | no addition of 16 bits stays in its place            | .67 | .85  | .88
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
  // On AVX-512, 2 vectors for 4 rows or more have .95 of the speed with u4, and 1.15 to 1.2 with Q5_K and Q6_K.
  static constexpr std::size_t vectors_of(std::size_t rows) {
    return rows == 1 ? 256 / sizeof(Register) : sizeof(Register) == 64 ? 4 : 2;
  }

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
