// Defines the order of operations of rapt_reduce. The n elements of an output are numbered in row-major order of the
// reduced dimensions, in the order of the call. Memory layout plays no part in it.
//
// Lane i mod `dot_lanes` takes element i, in order, and lanes are joined as in a dot product (reductions.hpp): after
// 512 elements each lane is joined to a second set and begins again, and the second set is folded by halves.
//
//   operation        a lane begins at   takes x by                    joins by
//   SUM, MEAN        +0                 lane + x                      +
//   NORM_1           +0                 lane + |x|                    +
//   NORM_2           +0                 fma(x, x, lane)               +
//   VARIANCE         +0                 fma(x - mean, x - mean, lane) +
//   PRODUCT          1                  lane * x                      *
//   MIN, MAX         inf, -inf          minimum, maximum              the same
//   NORM_INF         +0                 the maximum with |x|          the same
//
// Then MEAN divides by n, and VARIANCE by n - correction, which is rounded once, and is 0 where it would be negative.
// MIN and MAX add +0, so that a result of -0 becomes +0: CPUs differ in which zero is the larger one. A missing element
// is not taken, and a lane without elements changes nothing: a sum that begins at +0 is never -0.
//
// NORM_2 is the root of the sum, if it is at least `least` and does not overflow. Otherwise some squares may have been
// lost. Then all are added again: fma(x s, x s, lane), where s is a power of two, near 1 over the largest magnitude.
// The root of that is divided by s.
//
// Errors, with D u the bound of a dot product relative to T, the sum of its magnitudes (reductions.hpp): an addition
// errs
// by no more than a fused operation, so a sum errs by D u T, where T is the sum of |x|.
//
//   MEAN      the rounding of n and the quotient add 2 u |mean|.
//   NORM_1    its terms are not negative: the relative error is D u.
//   NORM_2    a sum of squares has the relative error D u. The root halves it and adds u: (D / 2 + 1) u. Squares that underflow
//             are off by at most 2^-150 (f64: 2^-1075) each, which, compared with `least`, is less than u / 64 for n up to 2^55.
//   VARIANCE  let the mean err by e. The exact sum of (x - mean)^2 grows by n e^2. A deviation has the relative error u, so its
//             square 2 u, to first order. The sum adds D u, the divisor and the quotient 2 u. So V errs by
//             (D + 5) u (V + e^2 n / (n - correction)) + e^2 n / (n - correction).
//   PRODUCT   a product of n numbers has n - 1 roundings, and products with 1 have none: (n - 1) u / (1 - (n - 1) u), if no
//             partial product overflows or underflows.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace rapt {
namespace {

// Tells where a sum of squares is good, and what elements are multiplied by where it is not.
template <class A>
struct SafeSquares;
template <>
struct SafeSquares<float> {
  static constexpr float least = 0x1p-64f;
  static float scale_of(float largest) {
    const auto exponent = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(largest) >> 23);
    if (largest == 0 || exponent == 255) return 0;  // the norm is 0, infinite or NaN
    const std::int32_t inverse = 254 - exponent;    // from 0 to 254; a scale of 2^-127 would be subnormal
    return std::bit_cast<float>((inverse < 1     ? 1u
                                 : inverse > 253 ? 253u
                                                 : static_cast<std::uint32_t>(inverse))
                                << 23);
  }
};
template <>
struct SafeSquares<double> {
  static constexpr double least = 0x1p-900;
  static double scale_of(double largest) {
    const auto exponent = static_cast<std::int64_t>(std::bit_cast<std::uint64_t>(largest) >> 52);
    if (largest == 0 || exponent == 2047) return 0;
    const std::int64_t inverse = 2046 - exponent;
    return std::bit_cast<double>((inverse < 1      ? 1u
                                  : inverse > 2045 ? 2045u
                                                   : static_cast<std::uint64_t>(inverse))
                                 << 52);
  }
};

template <class A>
A variance_divisor(std::size_t n, double correction) {
  const double divisor = static_cast<double>(n) - correction;
  return divisor > 0 ? static_cast<A>(divisor) : A(0);
}

}  // namespace
}  // namespace rapt
