// Defines the sines and cosines of rope that every instruction-set level must agree on, and the order of
// operations. Every operation rounds once, to double unless the line says otherwise; fma(a, b, c) is fused.
//
//   angle = position * frequency
//   n     = fma(angle, 2/pi, magic) - magic         the nearest integer, ties to even
//   r     = fma(-n, half_pi_low, fma(-n, half_pi, angle)),  z = r * r
//   sin   = fma(r * z, s[0] + z * s[1] + ..., r),  cos = fma(z, c[0] + z * c[1] + ..., 1), by fma from the last
//           coefficient on
//   quadrant n & 3:   0: sin, cos   1: cos, -sin   2: -sin, -cos   3: -cos, sin   are sine and cosine
//   each times attention_factor, then rounded to f32 if that is the arithmetic type
//   y0 = fma(a, cosine, -(b * sine)),  y1 = fma(a, sine, b * cosine)   in the arithmetic type
//
// The inner fma of r is exact, because angle and n * half_pi are multiples of 2^-53 if n is not 0. Without
// half_pi_low, r would miss n * 6e-17. What the two constants miss of pi / 2 is 1.5e-33, so n may be any
// number below 2^34.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

struct RopeReduction {
  static constexpr double two_over_pi = 0x1.45f306dc9c883p-1;
  static constexpr double half_pi = 0x1.921fb54442d18p0;
  static constexpr double half_pi_low = 0x1.1a62633145c07p-54;
  static constexpr double magic = 0x1.8p52;  // a sum with it has n in its lowest bits

  static constexpr long long largest_position = 1ll << 24;
  static constexpr double largest_frequency = 1024;
};

// These commands of Sollya 8.0 compute the coefficients, with r = pi/4*(1+2^-20):
//   f32: fpminimax(sin(x), [|3,5,7,9|], [|D...|], [2^-30; r], x, relative);             error 5.2e-12
//        fpminimax(cos(x), [|2,4,6,8|], [|D...|], [2^-30; r], 1, relative);             error 6.4e-11
//   f64: fpminimax(sin(x), [|3,5,7,9,11,13|], [|D...|], [2^-30; r], x, relative);       error 3.8e-18
//        fpminimax(cos(x), [|4,6,8,10,12,14|], [|D...|], [2^-30; r], 1-x^2/2, relative);  error 5.7e-20
template <class A>
struct RopeContract;

// Errors, in 2^-24 of the sine or cosine: rounding to f32 takes at most 1, and nearly that just above a power of two.
// The polynomial takes 0.0011, and the operations in double less than 1e-6. So 1.0012 is proved where rapt.h allows
// 1.004.
template <>
struct RopeContract<float> : RopeReduction {
  static constexpr std::size_t sine_count = 4, cosine_count = 4;
  static constexpr double s[sine_count] = {-0x1.5555554c71ccep-3, 0x1.1111086a5e287p-7,
                                           -0x1.a00f7f2621001p-13, 0x1.6cd1f20d901aep-19};
  static constexpr double c[cosine_count] = {-0x1.ffffffcb82ce8p-2, 0x1.55553c788fddbp-5,
                                             -0x1.6c07f165803f4p-10, 0x1.99169ee5fd312p-16};
};

template <>
struct RopeContract<double> : RopeReduction {
  static constexpr std::size_t sine_count = 6, cosine_count = 7;
  static constexpr double s[sine_count] = {-0x1.5555555555548p-3,  0x1.111111110f76p-7,
                                           -0x1.a01a019bf2b7ep-13, 0x1.71de355fa4e3dp-19,
                                           -0x1.ae5e55005a3c8p-26, 0x1.5d8e625bc8fc5p-33};
  static constexpr double c[cosine_count] = {-0.5,
                                             0x1.555555555554bp-5,
                                             -0x1.6c16c16c15018p-10,
                                             0x1.a01a019c8f944p-16,
                                             -0x1.27e4f7f1ee766p-22,
                                             0x1.1ee9dc12a988p-29,
                                             -0x1.8fa6a89160bb7p-37};
};

}  // namespace
}  // namespace rapt
