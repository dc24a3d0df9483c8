// Turns codes of quantized weights into numbers, and describes the kinds of codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "kernels/vector/inner.hpp"

namespace {

using CodeWords = xsimd::batch<std::uint32_t, typename simd<float>::batch::arch_type>;

RAPT_INNER inline CodeWords load_words(const std::uint8_t *codes) {
  return CodeWords::load_unaligned(reinterpret_cast<const std::uint32_t *>(codes));
}

// Codes of bytes are [inputs / 4][64][4]. Codes of 4 bits are [inputs / 8][64][4], with inputs 0 to 3 of the
// 8 in the low halves. A zero is taken off both. Codes with a table are looked up in it instead.
//
// A unit of a kind is `inputs` inputs of 64 outputs, in `planes` planes of a word per output. quad<Quads, q>(codes) returns
// the codes of its inputs 4q to 4q + 3 for a vector of outputs, whose words of the first plane are at `codes`
// (integer_tiles.hpp).
struct CodesOfBytes {
  using Element = std::uint8_t;
  static constexpr std::size_t inputs = 4, planes = 1;

  template <class Quads, std::size_t>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes) {
    return Quads::biased(load_words(codes));
  }
};
struct CodesOfHalves {
  using Element = std::uint8_t;
  static constexpr std::size_t inputs = 8, planes = 1;

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes) {
    const CodeWords words = load_words(codes);
    return q == 0 ? Quads::low_halves(words) : Quads::high_halves(words);
  }
};
struct CodesWithTable : CodesOfHalves {};

// Returns code j of each word in the low bits, above which are others.
template <class Kind, std::size_t j>
RAPT_INNER inline CodeWords code_of(CodeWords words) {
  constexpr int shift = Kind::inputs == 4 ? 8 * j : 8 * (j % 4) + 4 * (j / 4);
  if constexpr (shift == 0) return words;
  return words >> shift;
}

// A number's bits with this one's are the number plus 2^23, if it is an integer below 2^23.
inline constexpr float code_magic = 0x1p23f;

// Returns code j of each word as a number. `zero` is the codes' zero plus code_magic.
template <class Codes, class Kind, std::size_t j>
RAPT_INNER inline simd<float>::batch number_of(CodeWords words, simd<float>::batch zero, const float *table) {
  const CodeWords code = code_of<Kind, j>(words);
  if constexpr (std::is_same_v<Kind, CodesWithTable>) {
    return Codes::look_up(table, code);
  } else {
    return Codes::template with_magic < Kind::inputs == 4 ? 255 : 15 > (code)-zero;
  }
}

}  // namespace
