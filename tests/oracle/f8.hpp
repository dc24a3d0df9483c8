// Says what the numbers of 8 bits are, from the definitions of OCP's formats.
#pragma once

#include <cmath>
#include <limits>

namespace rapt::test::oracle {

// A mantissa of m bits of 8 follows the exponent. `has_infinities` is of E5M2, whose largest exponent is special.
inline float number_of_f8(int code, int exponent_bits, bool has_infinities) {
  const int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (code & 127) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
  const double sign = code & 128 ? -1 : 1, whole = 1 << mantissa_bits;
  const bool is_last = exponent == (1 << exponent_bits) - 1;
  if (is_last && has_infinities)
    return mantissa == 0 ? static_cast<float>(sign) * std::numeric_limits<float>::infinity()
                         : std::numeric_limits<float>::quiet_NaN();
  if (is_last && mantissa == (1 << mantissa_bits) - 1) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return static_cast<float>(sign * std::ldexp(mantissa / whole, 1 - bias));
  return static_cast<float>(sign * std::ldexp(1 + mantissa / whole, exponent - bias));
}
inline float number_of_e4m3(int code) { return number_of_f8(code, 4, false); }
inline float number_of_e5m2(int code) { return number_of_f8(code, 5, true); }

}  // namespace rapt::test::oracle
