// Defines 16-bit floats for tests. Their conversions are independent of the library's.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "support/bits.hpp"

namespace rapt::test {

// Represents a 16-bit binary float. `digits` counts its fraction bits, including the implicit leading 1.
template <int digits, int max_exponent>
class Half {
 public:
  Half() = default;
  // Rounds x to nearest, ties to even.
  explicit Half(double x) : bits_(rounded(x)) {}
  static constexpr Half of_bits(std::uint16_t bits) {
    Half half;
    half.bits_ = bits;
    return half;
  }
  std::uint16_t bits() const { return bits_; }

  operator float() const {
    const int magnitude = bits_ & 0x7fff, exponent = magnitude >> (digits - 1);
    const int fraction = magnitude & ((1 << (digits - 1)) - 1);
    float value;
    if (exponent == 2 * max_exponent - 1) {
      value =
          fraction == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    } else if (exponent == 0) {
      value = static_cast<float>(fraction * power_of_two(lowest_exponent));
    } else {
      const int whole = fraction | 1 << (digits - 1);
      value = static_cast<float>(whole * power_of_two(exponent - 1 + lowest_exponent));
    }
    return bits_ & 0x8000 ? -value : value;
  }
  Half operator-() const { return of_bits(bits_ ^ 0x8000); }
  bool operator==(const Half &) const = default;

 private:
  static constexpr int lowest_exponent = 3 - max_exponent - digits;  // of the lowest bit of subnormals
  static constexpr std::uint16_t infinity = (2 * max_exponent - 1) << (digits - 1);

  // Replaces std::ldexp and std::frexp, which would take most of the time of tests with 16-bit elements.
  static double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(1023 + exponent) << 52);
  }
  static int exponent_of(double x) {  // like std::frexp's, but wrong for subnormal numbers
    return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1022;
  }

  static std::uint16_t rounded(double x) {
    const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    if (std::isnan(x)) return sign | infinity | infinity >> 1 | 1 << (digits - 2);
    if (x == 0) return sign;
    if (!std::isfinite(x)) return sign | infinity;
    const int unit = std::max(exponent_of(x) - digits, lowest_exponent);
    // Adding 2^52 rounds to an integer. A carry out of the fraction increments the exponent, up to infinity.
    constexpr double to_integers = 0x1p52;
    const double rounded = std::fabs(x) * power_of_two(-unit) + to_integers - to_integers;
    const auto steps = static_cast<std::int64_t>(rounded);
    const std::int64_t magnitude =
        steps + (static_cast<std::int64_t>(unit - lowest_exponent) << (digits - 1));
    return static_cast<std::uint16_t>(sign | (magnitude < infinity ? magnitude : infinity));
  }

  std::uint16_t bits_ = 0;
};
using F16 = Half<11, 16>;
using BF16 = Half<8, 128>;

// The library computes with elements of E in this type.
template <class E>
using Number = std::conditional_t<sizeof(E) <= 2, float, E>;

// Stands for keys and values in blocks of files, whose type is known only at run time.
struct InBlocks {
  std::uint8_t byte;
};

// Says whether keys and values of this type have scales in an array.
template <class KV>
inline constexpr bool has_scales = std::is_same_v<KV, std::int8_t>;

// Queries and outputs have this type if keys and values have type E.
template <class E>
using QueryOf = std::conditional_t<sizeof(E) == 1, float, E>;

// The library multiplies elements of E by elements of this type.
template <class E>
using Factor = std::conditional_t<sizeof(E) == 1, std::int8_t, E>;
template <class E>
using ProductSum = std::conditional_t<sizeof(E) == 1, std::int64_t, Number<E>>;

// Converts `values` to factors. Bytes keep their bits, and other elements keep their values.
template <class E>
std::vector<Factor<E>> as_factors(const std::vector<E> &values) {
  return {values.begin(), values.end()};
}

}  // namespace rapt::test

template <int digits_, int max_exponent_>
class std::numeric_limits<rapt::test::Half<digits_, max_exponent_>> {
  using Half = rapt::test::Half<digits_, max_exponent_>;
  static constexpr std::uint16_t infinity_bits = (2 * max_exponent_ - 1) << (digits_ - 1);

 public:
  static constexpr bool is_specialized = true;
  static constexpr int digits = digits_, max_exponent = max_exponent_, min_exponent = 3 - max_exponent_;
  static constexpr Half infinity() { return Half::of_bits(infinity_bits); }
  static constexpr Half quiet_NaN() { return Half::of_bits(infinity_bits | 1 << (digits - 2)); }
  static constexpr Half max() { return Half::of_bits(infinity_bits - 1); }
  static constexpr Half lowest() { return Half::of_bits(0x8000 | (infinity_bits - 1)); }
  static constexpr Half min() { return Half::of_bits(1 << (digits - 1)); }
  static constexpr Half denorm_min() { return Half::of_bits(1); }
  static Half epsilon() { return Half(std::ldexp(1.0, 1 - digits)); }
};

namespace rapt::test {

// Returns |got - exact|. For 16-bit E it subtracts half the spacing of E's numbers, because rounding to E may
// add that much.
template <class E>
long double distance(long double got, long double exact) {
  const long double off = std::fabs(got - exact);
  if constexpr (std::is_same_v<E, Number<E>>) {
    return off;
  } else {
    const auto magnitude = static_cast<double>(std::max(std::fabs(got), std::fabs(exact)));
    return std::max(off - static_cast<long double>(ulp_at<E>(magnitude)) / 2, 0.0L);
  }
}

}  // namespace rapt::test
