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

// Codes lie in memory as call/quantized_weights.hpp says. A zero is taken off them, but codes with a table are looked up in
// it instead.
//
// A unit of a kind is `inputs` inputs of 64 outputs, in `planes` planes of a word per output. quad<Quads, q>(codes) returns
// the codes of its inputs 4q to 4q + 3 for a vector of outputs, whose words of the first plane are at `codes`
// (integer_tiles.hpp).
struct CodesOfBytes {
  using Element = std::uint8_t;
  static constexpr unsigned bits = 8;
  static constexpr std::size_t inputs = 4, planes = 1;

  template <class Quads, std::size_t>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes) {
    return Quads::biased(load_words(codes));
  }
};
struct CodesOfHalves {
  using Element = std::uint8_t;
  static constexpr unsigned bits = 4;
  static constexpr std::size_t inputs = 8, planes = 1;

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes) {
    const CodeWords words = load_words(codes);
    return q == 0 ? Quads::low_halves(words) : Quads::high_halves(words);
  }
};
struct CodesWithTable : CodesOfHalves {};

// The low 4 bits are halves, and the other ones lie in the last plane.
template <unsigned bits_of_code>
struct CodesOfHalvesAndMore {
  using Element = std::uint8_t;
  static constexpr unsigned bits = bits_of_code;
  static constexpr std::size_t more = bits - 4, inputs = 32 / more, planes = inputs / 8 + 1,
                               plane = 4 * rapt::linear_block;

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes) {
    const CodeWords low = CodesOfHalves::quad<Quads, q % 2>(codes + q / 2 * plane);
    return low | high<static_cast<int>(more * q) - 4>(load_words(codes + (planes - 1) * plane));
  }

 private:
  // Returns the bits above the low 4 of each byte.
  template <int shift>
  RAPT_INNER static CodeWords high(CodeWords words) {
    const CodeWords mask(((1U << more) - 1) * 0x10101010U);
    if constexpr (shift > 0) return (words >> shift) & mask;
    if constexpr (shift < 0) return (words << -shift) & mask;
    return words & mask;
  }
};
using CodesOfFive = CodesOfHalvesAndMore<5>;
using CodesOfSix = CodesOfHalvesAndMore<6>;

// Returns code j of each word in the low bits, above which are others.
template <class Kind, std::size_t j>
RAPT_INNER inline CodeWords code_of(CodeWords words) {
  constexpr int shift = Kind::inputs == 4 ? 8 * j : 8 * (j % 4) + 4 * (j / 4);
  if constexpr (shift == 0) return words;
  return words >> shift;
}

// Calls f(kind) with the kind of packed codes of so many bits.
template <class F>
RAPT_INNER inline void with_kind_of(unsigned bits, F f) {
  switch (bits) {
    case 4:
      return f(CodesOfHalves{});
    case 5:
      return f(CodesOfFive{});
    case 6:
      return f(CodesOfSix{});
    default:
      return f(CodesOfBytes{});
  }
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

// Returns code j of a unit of several planes, whose words of the first plane are at `codes`, as a number.
template <class Codes, class Kind, std::size_t j>
RAPT_INNER inline simd<float>::batch number_in_planes(const std::uint8_t *codes, simd<float>::batch zero) {
  constexpr std::size_t bits = 4 + Kind::more;
  constexpr int down = static_cast<int>(8 * (j % 4));
  CodeWords code = Kind::template quad<Codes, j / 4>(codes);
  if constexpr (down > 0) code = code >> down;
  return Codes::template with_magic<(1 << bits) - 1>(code) - zero;
}

}  // namespace
