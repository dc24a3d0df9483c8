// Turns codes of quantized weights into numbers, and describes the kinds of codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <xsimd/xsimd.hpp>

#include "call/code_unit.hpp"
#include "call/quantized_weights.hpp"
#include "kernels/vector/inner.hpp"

namespace {

using CodeWords = xsimd::batch<std::uint32_t, typename simd<float>::batch::arch_type>;

RAPT_INNER inline CodeWords load_words(const std::uint8_t *codes) {
  return CodeWords::load_unaligned(reinterpret_cast<const std::uint32_t *>(codes));
}

// Codes lie in memory as call/code_unit.hpp says. A zero is subtracted from them, but codes with a table are looked up
// in it instead. A kind of codes has
//
//   bits                     of the integers that are multiplied
//   inputs, bytes            of a unit
//   groups                   of the sum in a unit, if a unit is larger than a group; else 1
//   whole_units              whether a layer has no part of a unit
//   words_of(n)              the byte of a unit where the words of output n begin
//   quad<Quads, q>(codes, table)    the codes of inputs 4q to 4q + 3 of a unit for a vector of outputs, whose words of
//                            the first plane are at `codes` (integer_tiles.hpp). Only CodesInBytes reads the table,
//                            which has the byte of each code of 4 bits
struct CodesOfBytes {
  using Element = std::uint8_t;
  static constexpr unsigned bits = 8;
  static constexpr std::size_t inputs = 4, bytes = 4 * rapt::linear_block, groups = 1;
  static constexpr bool whole_units = false;
  static constexpr std::size_t words_of(std::size_t n) { return 4 * n; }

  template <class Quads, std::size_t>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes, const std::uint8_t *) {
    return Quads::biased(load_words(codes));
  }
};
struct CodesOfHalves {
  using Element = std::uint8_t;
  static constexpr unsigned bits = 4;
  static constexpr std::size_t inputs = 8, bytes = 4 * rapt::linear_block, groups = 1;
  static constexpr bool whole_units = false;
  static constexpr std::size_t words_of(std::size_t n) { return 4 * n; }

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes, const std::uint8_t *) {
    return halves<Quads, q>(load_words(codes));
  }
  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords halves(CodeWords words) {
    return q == 0 ? Quads::low_halves(words) : Quads::high_halves(words);
  }
};
struct CodesWithTable : CodesOfHalves {};
// Numbers of 8 bits, without integers. Tiles see no specials of them (quantized.hpp).
template <unsigned exponent_bits>
struct CodesOfF8 : CodesOfBytes {
  static constexpr rapt::F8 f8{exponent_bits};
};
template <class Kind>
concept IsOfF8 = requires {
  Kind::f8;
};
template <unsigned bits_of_integer>
struct CodesInBytes : CodesOfHalves {
  static constexpr unsigned bits = bits_of_integer;

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes, const std::uint8_t *table) {
    return Quads::look_up_bytes(table, CodesOfHalves::quad<Quads, q>(codes, table));
  }
};

// Codes of 2, 3, 5 and 6 bits, which only blocks of files have.
template <unsigned bits_of_code>
struct CodesInPlanes {
  using Element = std::uint8_t;
  static constexpr unsigned bits = bits_of_code;
  static constexpr rapt::CodeUnit unit = rapt::CodeUnit::of(bits);
  static constexpr std::size_t inputs = unit.inputs, bytes = unit.bytes();
  static constexpr std::size_t groups = bits == 3 ? 2 : 1;  // Q3_K has groups of 16 inputs
  static constexpr bool whole_units = true;
  static constexpr std::size_t words_of(std::size_t n) { return unit.words_of(n); }

  template <class Quads, std::size_t q>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes, const std::uint8_t *) {
    constexpr std::size_t quads = 8 / unit.low;
    constexpr int up = static_cast<int>(unit.more * q) - static_cast<int>(unit.low);
    const CodeWords words = load_words(codes + q / quads * unit.plane);
    const CodeWords low = [&]() RAPT_INNER {
      if constexpr (unit.low == 4) return CodesOfHalves::halves<Quads, q % quads>(words);
      return some_bits<unit.low, 0, static_cast<int>(unit.low * (q % quads))>(words);
    }();
    if constexpr (unit.more == 0) return low;
    return low | some_bits<unit.more, unit.low, up>(load_words(codes + (unit.planes - 1) * unit.plane));
  }

 private:
  // Shifts words down, and returns `count` bits of each byte from `at` on.
  template <unsigned count, unsigned at, int down>
  RAPT_INNER static CodeWords some_bits(CodeWords words) {
    const CodeWords mask((((1U << count) - 1) << at) * 0x01010101U);
    if constexpr (down > 0) return (words >> down) & mask;
    if constexpr (down < 0) return (words << -down) & mask;
    return words & mask;
  }
};

// Codes that linear_in_i8.hpp has put in the order of bytes. They have up to so many bits.
template <unsigned most_bits>
struct CodesInOrder : CodesOfBytes {
  static constexpr unsigned bits = most_bits;

  template <class Quads, std::size_t>
  RAPT_INNER static CodeWords quad(const std::uint8_t *codes, const std::uint8_t *) {
    return load_words(codes);
  }
};

template <int down>
RAPT_INNER inline CodeWords shifted(CodeWords words) {
  if constexpr (down == 0) return words;
  return words >> down;
}
// Returns code j of each word in the low bits, above which are others.
template <class Kind, std::size_t j>
RAPT_INNER inline CodeWords code_of(CodeWords words) {
  return shifted < Kind::inputs == 4 ? 8 * j : 8 * (j % 4) + 4 * (j / 4) > (words);
}

// Whether many rows put codes in the order of bytes first: those of a table, and split ones.
template <class Kind>
constexpr bool is_put_in_order = false;
template <unsigned bits>
constexpr bool is_put_in_order<CodesInBytes<bits>> = true;
template <unsigned bits>
constexpr bool is_put_in_order<CodesInPlanes<bits>> = CodesInPlanes<bits>::unit.more != 0;

// Calls f(kind) with the kind of packed codes of so many bits.
template <class F>
RAPT_INNER inline void with_kind_of(unsigned bits, F f) {
  switch (bits) {
    case 2:
      return f(CodesInPlanes<2>{});
    case 3:
      return f(CodesInPlanes<3>{});
    case 4:
      return f(CodesOfHalves{});
    case 5:
      return f(CodesInPlanes<5>{});
    case 6:
      return f(CodesInPlanes<6>{});
    default:
      return f(CodesOfBytes{});
  }
}
// Does it in i8 arithmetic.
template <class F>
RAPT_INNER inline void with_kind_of_integers(const rapt::QuantizedWeights &weights, F f) {
  if (weights.has_codebook())
    return weights.has_integers_of_bytes() ? f(CodesInBytes<8>{}) : f(CodesInBytes<5>{});
  with_kind_of(weights.bits(), f);
}

// A number's bits with this one's are the number plus 2^23, if it is an integer below 2^23.
inline constexpr float code_magic = 0x1p23f;

// Returns code j of each word as a number, and those that are no finite numbers too if there may be such.
template <class Codes, class Kind, std::size_t j, bool may_be_special = false>
RAPT_INNER inline simd<float>::batch number_of_f8(CodeWords words) {
  using S = simd<float>;
  constexpr rapt::F8 f8 = Kind::f8;
  const CodeWords bits = Codes::template signed_bits<f8.shift(), j>(words);
  const S::batch number = S::number(bits) * typename S::batch(f8.factor());
  if constexpr (!may_be_special) return number;
  // The sum reaches bit 7 of the code's place for specials alone.
  constexpr std::uint32_t to_top = 128 - f8.first_special();
  const CodeWords magnitude = bits & CodeWords(0x7fffffff);
  const CodeWords is_special = (magnitude + CodeWords(to_top << f8.shift())) >> (f8.shift() + 7);
  return S::number(CodeWords(S::bits(number)) |
                   ((CodeWords(0) - is_special) & CodeWords(rapt::F8::exponent_of_specials)));
}

// Returns code j of each word as a number. `zero` is the codes' zero plus code_magic.
template <class Codes, class Kind, std::size_t j>
RAPT_INNER inline simd<float>::batch number_of(CodeWords words, simd<float>::batch zero, const float *table) {
  if constexpr (IsOfF8<Kind>) return number_of_f8<Codes, Kind, j>(words);
  const CodeWords code = code_of<Kind, j>(words);
  if constexpr (std::is_same_v<Kind, CodesWithTable>) {
    return Codes::look_up(table, code);
  } else {
    return Codes::template with_magic < Kind::inputs == 4 ? 255 : 15 > (code)-zero;
  }
}

// Returns code j of a unit whose words of the first plane are at `codes`, as a number.
template <class Codes, class Kind, std::size_t j>
RAPT_INNER inline simd<float>::batch number_in_planes(const std::uint8_t *codes, simd<float>::batch zero) {
  constexpr std::size_t bits = Kind::unit.low + Kind::unit.more;
  constexpr int of_byte = static_cast<int>(8 * (j % 4)), of_plane = static_cast<int>(bits * (j / 4));
  const CodeWords code = [&]() RAPT_INNER {
    if constexpr (Kind::unit.planes == 1) return shifted<of_byte + of_plane>(load_words(codes));
    return shifted<of_byte>(Kind::template quad<Codes, j / 4>(codes, nullptr));
  }();
  return Codes::template with_magic<(1 << bits) - 1>(code) - zero;
}

}  // namespace
