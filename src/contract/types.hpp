// Defines the element types, in which arrays are stored. Scores, weights, sums and scratch have the
// arithmetic type instead.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

namespace rapt {

// F16 is IEEE binary16, and BF16 is the upper half of a binary32.
struct F16 {
  std::uint16_t bits;
};
struct BF16 {
  std::uint16_t bits;
};

namespace {

template <class E>
struct ArithmeticOf {
  using type = float;
};
template <>
struct ArithmeticOf<double> {
  using type = double;
};

template <class E>
using Arithmetic = typename ArithmeticOf<E>::type;

// The first factor of a product of bytes may be unsigned, and the second is signed. Products are summed
// exactly.
template <class E>
using FactorOf = std::conditional_t<sizeof(E) == 1, std::int8_t, E>;
template <class E>
using ProductSum = std::conditional_t<sizeof(E) == 1, std::int64_t, Arithmetic<E>>;

// Returns an element as a number of the arithmetic type, which is exact.
template <class E>
Arithmetic<E> widened(E x) {
  return x;
}
template <>
inline float widened(BF16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16);
}
template <>
inline float widened(F16 x) {
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7fffu;
  // Infinities and NaNs keep the largest exponent. All other exponents grow by 112, also those of subnormal
  // numbers.
  const std::uint32_t bits =
      magnitude >= 0x7c00 ? 0x7f800000 | magnitude << 13
                          : std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  return std::bit_cast<float>(sign | bits);
}

// Returns a number as an element, rounded to nearest even. A NaN stays a NaN.
template <class E>
E narrowed(Arithmetic<E> x) {
  return x;
}
template <>
inline BF16 narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return {static_cast<std::uint16_t>((is_nan ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <>
inline F16 narrowed(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  std::uint32_t half;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | (magnitude >> 13 & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 2^16
    half = 0x7c00;
  } else if (magnitude < 0x38800000) {  // 2^-14; the sum's last bit is the last bit of a subnormal half
    half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) & 0x7fff;
  } else {
    half = (magnitude + 0xfff + (magnitude >> 13 & 1) - (112u << 23)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | half)};
}

}  // namespace
}  // namespace rapt
