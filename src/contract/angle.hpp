// Reduces angles of any size to a quadrant and a remainder, exactly: M. Payne and R. Hanek, "Radian reduction for
// trigonometric functions", SIGNUM Newsletter 18(1), 1983.
#pragma once

#include <bit>
#include <cstdint>

#include "contract/fused.hpp"

namespace rapt {
namespace {

// The first bits of 2 / pi after the point.
constexpr std::uint64_t two_over_pi_bits[21] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
    0xa9e391615ee61b08};

// Returns 64 bits of 2 / pi, from the one of weight 2^-from on. There are none in front of 2^-1.
inline std::uint64_t bits_of_two_over_pi(int from) {
  const int at = from - 1;
  if (at <= -64) return 0;
  if (at < 0) return two_over_pi_bits[0] >> -at;
  const int word = at / 64, shift = at % 64;
  const std::uint64_t high = two_over_pi_bits[word] << shift;
  return shift == 0 ? high : high | two_over_pi_bits[word + 1] >> (64 - shift);
}

struct Angle {
  double quadrant;  // 0 to 4
  double remainder;
};

// For a finite |x| of at least 2^-20, returns quadrant and remainder r of x = (quadrant + 4 k) * pi / 2 + r. r is rounded
// with an error below 0.51 ULP.
//
// |x| is m * 2^e. Of 2 / pi, bits of weight 2^(2 - e) and above only add multiples of 4. The 192 bits below them, times m,
// are the quadrant, in two bits, and 190 bits of its fraction. No double is nearer to a multiple of pi / 2 than 2^-62,
// so what is cut off, 2^-137, is small compared with the fraction.
inline Angle far_angle(double x) {
  __extension__ using Wide = unsigned __int128;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t m = (bits & 0xfffffffffffff) | std::uint64_t{1} << 52;
  const int e = static_cast<int>(bits >> 52 & 0x7ff) - 1075;
  const Wide low = Wide{m} * bits_of_two_over_pi(e - 1 + 128);
  const Wide middle = Wide{m} * bits_of_two_over_pi(e - 1 + 64) + (low >> 64);
  const std::uint64_t high = m * bits_of_two_over_pi(e - 1) + static_cast<std::uint64_t>(middle >> 64);
  int quadrant = static_cast<int>(high >> 62);
  // The fraction, as a number of two's complement from -1/2 to 1/2, has 126 and then 64 bits.
  Wide fraction = Wide{high << 2 | static_cast<std::uint64_t>(middle) >> 62} << 64 |
                  (static_cast<std::uint64_t>(middle) << 2 | static_cast<std::uint64_t>(low) >> 62);
  const bool is_negative = fraction >> 127 != 0;
  if (is_negative) {
    fraction = -fraction;
    ++quadrant;
  }
  // Two doubles, of 53 bits each, hold what is visible of the fraction.
  const auto top = static_cast<std::uint64_t>(fraction >> 64);
  const int zeros =
      top != 0 ? std::countl_zero(top) : 64 + std::countl_zero(static_cast<std::uint64_t>(fraction));
  const Wide normal = fraction << zeros;
  const auto first = static_cast<std::uint64_t>(normal >> 75),
             second = static_cast<std::uint64_t>(normal >> 22) << 11 >> 11;
  const auto power = [](int n) { return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52); };
  const double f = static_cast<double>(first) * power(-53 - zeros),
               g = static_cast<double>(second) * power(-106 - zeros);
  constexpr double half_pi = 0x1.921fb54442d18p0, half_pi_low = 0x1.1a62633145c07p-54;
  const double product = f * half_pi, lost = fused(f, half_pi, -product);
  double r = product + fused(f, half_pi_low, fused(g, half_pi, lost));
  if (is_negative) r = -r;
  return bits >> 63 != 0 ? Angle{static_cast<double>(4 - quadrant), -r}
                         : Angle{static_cast<double>(quadrant), r};
}

}  // namespace
}  // namespace rapt
