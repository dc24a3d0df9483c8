// The powers that follow from C23's annex F rather than from a logarithm.
#pragma once

#include <limits>

namespace rapt {
namespace {

// Returns whether y is an integer, and whether it is odd. Doubles from 2^53 on are even integers.
inline bool is_integer(double y, bool &is_odd) {
  const double magnitude = y < 0 ? -y : y;
  is_odd = false;
  if (!(magnitude < 0x1p53)) return magnitude == magnitude;
  const auto whole = static_cast<long long>(magnitude);
  is_odd = whole % 2 != 0;
  return static_cast<double>(whole) == magnitude;
}

// Returns x^y, where `ordinary` is |x|^y if x and y are finite and x is not 0.
inline double pow_of_special(double x, double y, double ordinary) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (x == 1 || y == 0) return 1;
  if (x != x || y != y) return x + y;
  const bool is_negative = __builtin_signbit(x);
  const double magnitude = is_negative ? -x : x;
  bool is_odd;
  const bool has_integer = is_integer(y, is_odd);
  if (y == infinity || y == -infinity) {
    if (magnitude == 1) return 1;
    return (magnitude > 1) == (y > 0) ? infinity : 0;
  }
  const double sign = is_negative && is_odd ? -1 : 1;
  if (magnitude == 0) return sign * (y < 0 ? infinity : 0);
  if (magnitude == infinity) return sign * (y < 0 ? 0 : infinity);
  if (is_negative && !has_integer) return std::numeric_limits<double>::quiet_NaN();
  return sign * ordinary;
}

}  // namespace
}  // namespace rapt
