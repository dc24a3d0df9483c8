// fused(a, b, c) = a * b + c, rounded once, to nearest even.
//
// The C library's fma is exact on every system but Windows, where mingw-w64's fmaf errs in 12 % of random
// cases. On Windows, code compiled without the FMA instruction uses the functions below.
#pragma once

#include <bit>
#include <cstdint>

namespace {
namespace by_parts {

// The product is exact in double. The sum is rounded to odd, so that the later rounding to float is correct:
// S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding
// to odd", IEEE Transactions on Computers 57(4), 2008.
inline float fused(float a, float b, float c) {
  const double product = double{a} * double{b};
  const double sum = product + double{c};
  const double added = sum - product;
  // Knuth's two-sum gives the exact error. The error is NaN if the sum is not finite.
  const double error = (product - (sum - added)) + (double{c} - added);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  // Rounds to odd: of the two doubles around the exact sum, takes the one with an odd last bit.
  if ((error > 0 || error < 0) && bits % 2 == 0) bits += (error > 0) == (sum > 0) ? 1 : std::uint64_t(-1);
  return static_cast<float>(std::bit_cast<double>(bits));
}

__extension__ using Wide = unsigned __int128;

inline int top_bit(Wide x) {
  const auto high = static_cast<std::uint64_t>(x >> 64), low = static_cast<std::uint64_t>(x);
  return high ? 127 - std::countl_zero(high) : 63 - std::countl_zero(low);
}

// Returns x / 2^n. The last bit is set if a bit was lost.
inline Wide shifted_right(Wide x, int n) {
  if (n > 127) return x != 0;
  return x >> n | ((x >> n << n) != x);
}

// A Term is ±magnitude * 2^exponent, a finite number other than 0. The highest set bit of the magnitude is
// bit 125.
struct Term {
  Wide magnitude;
  int exponent;
  bool negative;

  Term(Wide integer, int power, bool is_negative) : negative(is_negative) {
    const int up = 125 - top_bit(integer);
    magnitude = integer << up;
    exponent = power - up;
  }
};

// For a finite x, |x| is integer_of(x) * 2^power_of(x).
inline std::uint64_t integer_of(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t hidden = (bits >> 52 & 0x7ff) != 0;
  return hidden << 52 | (bits & 0xfffffffffffff);
}
inline int power_of(double x) {
  const int biased = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
  return (biased ? biased : 1) - 1075;
}
inline bool is_negative(double x) { return std::bit_cast<std::uint64_t>(x) >> 63 != 0; }

// Returns ±magnitude * 2^exponent as a double, which may be subnormal or overflow.
inline double rounded(Wide magnitude, int exponent, bool negative) {
  int down = top_bit(magnitude) - 52;
  if (exponent + down < -1074) down = -1074 - exponent;
  std::uint64_t integer;
  if (down <= 0) {
    integer = static_cast<std::uint64_t>(magnitude << -down);
  } else {
    const Wide quarters = down < 2 ? magnitude << (2 - down) : shifted_right(magnitude, down - 2);
    integer = static_cast<std::uint64_t>(quarters >> 2);
    const auto rest = static_cast<unsigned>(quarters & 3);
    integer += rest > 2 || (rest == 2 && integer % 2 != 0);
  }
  // The hidden bit of `integer` adds 1 to the exponent, which is right for a normal number. A subnormal
  // number has no hidden bit. If rounding gives 2^53, the carry raises the exponent.
  const int biased = exponent + down + 1074;
  const std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  const std::uint64_t bits = biased > 2045 ? infinity : (static_cast<std::uint64_t>(biased) << 52) + integer;
  return std::bit_cast<double>(bits | std::uint64_t{negative} << 63);
}

// Adds product and addend as integers of 128 bits. The last bit of a shifted integer also stands for all bits
// that were lost.
inline double fused(double a, double b, double c) {
  constexpr std::uint64_t infinity = std::uint64_t{0x7ff} << 52;
  const auto magnitude = [](double x) { return std::bit_cast<std::uint64_t>(x) << 1 >> 1; };
  if (magnitude(a) >= infinity || magnitude(b) >= infinity || a == 0 || b == 0) return a * b + c;
  if (magnitude(c) >= infinity) return c + c;
  if (c == 0) return a * b;  // adding 0 could change the sign of a product that underflows

  Term product(Wide{integer_of(a)} * integer_of(b), power_of(a) + power_of(b),
               is_negative(a) != is_negative(b));
  Term addend(integer_of(c), power_of(c), is_negative(c));
  const bool addend_is_larger = addend.exponent > product.exponent;
  const Term &larger = addend_is_larger ? addend : product;
  const Term &smaller = addend_is_larger ? product : addend;
  // The shift loses bits only if the smaller term is so small that the larger term's highest bits cannot
  // cancel.
  const Wide small = shifted_right(smaller.magnitude, larger.exponent - smaller.exponent);
  if (larger.negative == smaller.negative)
    return rounded(larger.magnitude + small, larger.exponent, larger.negative);
  if (larger.magnitude == small) return 0;
  return larger.magnitude > small ? rounded(larger.magnitude - small, larger.exponent, larger.negative)
                                  : rounded(small - larger.magnitude, larger.exponent, smaller.negative);
}

}  // namespace by_parts

#if defined(_WIN32) && defined(__x86_64__) && !defined(__FMA__)
inline float fused(float a, float b, float c) { return by_parts::fused(a, b, c); }
inline double fused(double a, double b, double c) { return by_parts::fused(a, b, c); }
#else
inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif

}  // namespace
