// Converts floating-point numbers to bits, and compares them as bits.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace rapt::test {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;

template <class T>
BitsOf<T> bits_of(T value) {
  return std::bit_cast<BitsOf<T>>(value);
}

template <class T>
T from_bits(BitsOf<T> bits) {
  return std::bit_cast<T>(bits);
}

// Returns the bits, but the same quiet NaN for every NaN, because processors return different NaNs. Uses only
// integer operations, so no compiler flag and no flush-to-zero mode changes the result.
template <class T>
std::uint64_t canonical_bits(T value) {
  constexpr BitsOf<T> infinity = std::bit_cast<BitsOf<T>>(std::numeric_limits<T>::infinity());
  constexpr auto quiet_nan =
      static_cast<BitsOf<T>>(infinity | BitsOf<T>{1} << (std::numeric_limits<T>::digits - 2));
  const BitsOf<T> bits = bits_of(value);
  const auto magnitude = static_cast<BitsOf<T>>(bits & (std::numeric_limits<BitsOf<T>>::max() >> 1));
  return magnitude > infinity ? quiet_nan : bits;
}

template <class T>
bool same_bits(T a, T b) {
  return canonical_bits(a) == canonical_bits(b);
}

template <class T>
bool same_bits(const std::vector<T> &a, const std::vector<T> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](T x, T y) { return same_bits(x, y); });
}

inline std::string hex(std::uint64_t bits, std::size_t element_size) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * element_size),
                static_cast<unsigned long long>(bits));
  return text;
}

// Returns how many representable numbers b is away from a. +0 and -0 count as one number.
template <class T>
std::uint64_t ulp_distance(T a, T b) {
  if (std::isnan(a) || std::isnan(b)) {
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<std::uint64_t>::max();
  }
  const auto position = [](T value) {
    const auto magnitude = static_cast<std::int64_t>(bits_of(std::fabs(value)));
    return std::signbit(value) ? -magnitude : magnitude;
  };
  const std::int64_t x = position(a), y = position(b);
  return x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
               : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
}

// Returns the distance between neighboring numbers of type T near `value`. Below the smallest normal number,
// it is the subnormal spacing.
template <class T>
double ulp_at(double value) {
  int exponent;
  std::frexp(value, &exponent);
  const int lowest = std::numeric_limits<T>::min_exponent;
  return std::ldexp(1.0, (exponent > lowest ? exponent : lowest) - std::numeric_limits<T>::digits);
}

}  // namespace rapt::test
