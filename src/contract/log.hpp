// Defines the logarithm of a row's sum, which is computed once per row, and its parts. libm's log is not
// used, because its last bit differs between systems.
#pragma once

#include <cstdint>

namespace {

// Returns artanh(s) / s - 1 for z = s^2 <= 0.0295, with an error below 2^-60.
inline double artanh_excess(double z) {
  double series = 1.0 / 21;
  series = 1.0 / 19 + z * series;
  series = 1.0 / 17 + z * series;
  series = 1.0 / 15 + z * series;
  series = 1.0 / 13 + z * series;
  series = 1.0 / 11 + z * series;
  series = 1.0 / 9 + z * series;
  series = 1.0 / 7 + z * series;
  series = 1.0 / 5 + z * series;
  series = 1.0 / 3 + z * series;
  return z * series;
}

// A positive, normal number is 2^exponent * mantissa, with a mantissa in [sqrt(1/2), sqrt(2)).
struct Scaled {
  double exponent, mantissa;

  explicit Scaled(double x) {
    constexpr std::uint64_t mantissa_of_sqrt_half = 0x3fe6a09e667f3bcd;
    std::uint64_t bits = __builtin_bit_cast(std::uint64_t, x);
    const std::int64_t k = static_cast<std::int64_t>(bits - mantissa_of_sqrt_half) >> 52;
    bits -= static_cast<std::uint64_t>(k) << 52;
    exponent = static_cast<double>(k);
    mantissa = __builtin_bit_cast(double, bits);
  }
};

// Returns log(x) for a finite, normal x > 0, with an error below 1.5 ULP (absolute error below 2^-53 around
// 1).
//
// x = 2^k * m with m in [sqrt(1/2), sqrt(2)), and log(m) = 2 * artanh(s) with s = (m - 1) / (m + 1), |s| <=
// 0.1716. The series s + s^3/3 + s^5/5 + … needs ten terms for 2^-60. No operation is fused, because the
// baseline may lack FMA.
inline double log_of_sum(double x) {
  constexpr double ln2_high = 0x1.62e42fefa38p-1;  // 42 bits: k * ln2_high is exact
  constexpr double ln2_low = 0x1.ef35793c7673p-45;
  const Scaled parts(x);
  const double m = parts.mantissa, exponent = parts.exponent;
  const double s = (m - 1.0) / (m + 1.0);
  const double log_m = 2.0 * s + 2.0 * s * artanh_excess(s * s);
  return exponent * ln2_high + (log_m + exponent * ln2_low);
}

}  // namespace
