// Defines the numbers of rapt_map's functions that every instruction-set level must agree on, and the order of
// operations.
//
// All but the functions named last are computed in double: f32's elements are widened, and the result is rounded to f32
// once. f32 has shorter polynomials, whose error is below 2^-30 of the result. Every operation rounds once; fma(a, b,
// c) is fused, and poly(c, z) is c[0] + z * c[1] + ..., by fma from the last coefficient on.
//
//   power(v)   2^n * (1 + q) = e^v:  n = fma(v, log2_e, magic) - magic,  r = fma(-n, ln2, v), of f64 fma(-n, ln2_low, r)
//              q = fma(r * r, poly(e, r), r)
//   exp_of(v)  f32: 2^n * (1 + q) of v limited to +-200;  f64: rapt_exp_f64
//   ln(x)      2^k * m = x with m from sqrt(1/2) up to sqrt(2),  f = m - 1
//   ln(k, f)   s = f / (2 + f), z = s * s
//              f32: fma(k, ln2, s * fma(z, poly(log, z), 2))
//              f64: h = f * f / 2, k * ln2_high - ((h - fma(s, fma(z, poly(log, z), h), k * ln2_low)) - f)
//   ln1p(x)    u = 1 + x, k and m those of u
//              f32: ln(k, m - 1), or fma(-x / 2, x, x) where |x| < 2^-20
//              f64: c = x - (u - 1), or 1 - (u - x) where x >= 1;  ln(k, fma(c, 2^-min(k, 64), m - 1)), with the sign of x
//
//   exp2       in the arithmetic type, as exp (contract/exp.hpp), of the numbers below
//   expm1(x)   |x| < 2^-54: x;  power of x limited to [-40, 710], h = 2^(n - 1);  2 * fma(h, q, h - 1/2)
//   log        ln(x)        log1p    ln1p(x)       log2     fma(ln(0, f), log2_e, k)
//   sin, cos   as rope (contract/rope.hpp) with the angle x; of f64 r = fma(-n, half_pi_lowest, r) too. From 2^28 on, n and r
//              are those of far_angle() (contract/angle.hpp)
//   tan        sin / cos, with the signs of the quadrant 0 or 1
//   tanh(x)    a = min(|x|, 20), power of -2a, q = fma(2^n, q, 2^n - 1);  -q / (2 + q), with the sign of x
//   erf(x)     a = min(|x|, end), t = a * poly(erf, a - middle), power of -t;  |fma(2^n, q, 2^n - 1)|, with the sign of x
//   sigmoid    f32: 1 / (1 + exp_of(-x));  f64: as in contract/activation.hpp
//   log_sigmoid   -(ln1p(e) - min(x, 0)), e = exp_of(-|x|)
//   softplus   v = x * a, in double;  v > b: x, else (max(v, 0) + ln1p(e)) / a, e = exp_of(-|v|)
//   mish       e = exp_of(-|x|);  x < 0: p = e * (e + 2), rest = 2;  else p = fma(2, e, 1), rest = 2 * e * e
//              d = p + rest;  max(x, -800) * (p / d)
//   elu        x > 0: x * b, else expm1(x * c) * (a * b)
//   atan2(y, x)   a = min(|x|, |y|) / max(|x|, |y|), or 0 where that is 0 / 0, or 1 where it is inf / inf;  t = fma(a * z,
//              poly(atan, z), a), z = a * a;  |y| > |x|: t = half_pi - t + half_pi_low, as (half_pi - t) + half_pi_low;
//              x negative, or -0: t = (pi - t) + pi_low;  t with the sign of y
//   pow(x, y)  f32: power of ln(|x|) * y limited to +-200.  f64: see power_of_logs below. Then the exact cases, and
//              pow_of_special() (contract/special_powers.hpp)
//   erf_backward          b = min(|x|, 40), h = b * b, e = exp_of(-h), of f64 e = fma(e, -fma(b, b, -h), e);  y * (erf_slope * e)
//   log_sigmoid_backward  y * sigmoid(-x)
//   softplus_backward     x * a > b: y, else y * sigmoid(x * a)
//   mish_backward         w = p / d, v = rest / d;  s = (x < 0 ? e : 1) / (1 + e);  y * fma(b * s, v * (1 + w), w),
//                         b = x limited to +-800
//   elu_backward          x > 0: y * b, else y * ((a * b * c) * exp_of(x * c))
//
// pow of f64 needs the logarithm in two doubles (fast_two_sum gives lo, the error of the sum hi):
//   d = 2 + f, s = f * (1 / d), s' = (fma(-s, d, f) - s * (f - (d - 2))) * (1 / d)
//   z = s * s, z' = fma(s, s, -z) + 2 * s * s',  p = poly(log_pow, z), v = z * p
//   t = two_thirds + v, t' = (((two_thirds - t) + v) + two_thirds_low) + fma(z, p, -v)
//   u = z * t, u' = fma(z, t, -u) + (z * t' + z' * t),  w = 2 + u, w' = ((2 - w) + u) + u'
//   l = s * w, l' = fma(s, w, -l) + (s * w' + s' * w)
//   a = k * ln2_high, h = a + l, h' = ((a - h) + l) + (l' + k * ln2_low)        the logarithm is h + h'
//   g = y * h, g' = fma(y, h, -g) + y * h';  where |g| is not below pow_end, g = +-pow_end and g' = 0
//   n and r of power(g), r = r + g';  p = 1 + fma(r * r, poly(e, r), r);  p * 2^(n1) * 2^(n - n1), n1 = n / 2 to an integer
//
// In the arithmetic type, as their formulas in rapt.h: sqrt, rsqrt, reciprocal, add, subtract, multiply, divide,
// add_scaled, fma, addcmul, addcdiv, lerp, clamp, the hard functions, sigmoid_backward, tanh_backward and the gradients
// of clamp and the hard ones.
//
// Sollya 8.0 computes the polynomials, with b = 1.002 * log(2) / 2 and z = ((sqrt(2) - 1) / (sqrt(2) + 1))^2 * 1.0001:
//   e         fpminimax(exp(x), [|2,...,7|], [|D...|], [-b; b], 1+x, relative)                      2^-34;  f64: exp's own
//   log       fpminimax(2*atanh(sqrt(x))/sqrt(x), [|1,...,4|], [|D...|], [2^-40; z], 2, relative)   2^-37;  7: 2^-59
//   atan      fpminimax(atan(sqrt(x))/sqrt(x), [|1,...,11|], [|D...|], [2^-40; 1], 1, relative)     2^-33;  20: 2^-57
//   erf       fpminimax(-log(erfc(x+m))/(x+m), 14, [|D...|], [-m+2^-30; m], relative)               2^-33;  30: 2^-54
//   log_pow   fpminimax((2*atanh(sqrt(x))/sqrt(x)-2-2/3*x)/x^2, 7, [|D...|], [2^-30; z], relative)          2^-69 of the log
#pragma once

#include <cstddef>

#include "contract/exp.hpp"

namespace rapt {
namespace {

struct MapNumbers {
  static constexpr double ln2_high = 0x1.62e42fefa38p-1;  // 42 bits: k * ln2_high is exact
  static constexpr double ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double sqrt_half = 0x1.6a09e667f3bcdp-1;
  static constexpr double half_pi_lowest = -0x1.f1976b7ed8fbcp-110;
  static constexpr double far = 0x1p28;  // from here on, an angle needs far_angle()
  static constexpr double half_pi = 0x1.921fb54442d18p0, half_pi_low = 0x1.1a62633145c07p-54;
  static constexpr double erf_slope = 0x1.20dd750429b6dp0;  // 2 / sqrt(pi)
  static constexpr double expm1_low = -40, expm1_high = 710;
  static constexpr double tiny = 0x1p-54, small = 0x1p-20, tanh_end = 20, erf_slope_end = 40, mish_end = 800;
  static constexpr double exp_end = 200;
};

template <class A>
struct MapContract;

template <>
struct MapContract<float> : MapNumbers {
  static constexpr double erf_end = 4;  // erf rounds to 1 before it
  static constexpr double e[6] = {0x1.0000003ac897fp-1, 0x1.5555544013338p-3, 0x1.55548c4771516p-5,
                                  0x1.1112736c8404fp-7, 0x1.6d8e6da8bf1cp-10, 0x1.9f0778f0b3a72p-13};
  static constexpr double log[4] = {0x1.555554fdd9b9fp-1, 0x1.999a7a2bc8bc7p-2, 0x1.2438ecaa97f33p-2,
                                    0x1.e2f3922fcb2b4p-3};
  static constexpr double atan[11] = {-0x1.555554873f2c5p-2, 0x1.999937f20bc93p-3,  -0x1.248a2ca9d75dbp-3,
                                      0x1.c66e4c715bec4p-4,  -0x1.700b2316b75a4p-4, 0x1.2958aa113e0b9p-4,
                                      -0x1.be980a223ffcap-5, 0x1.1a6ce15e398dep-5,  -0x1.0b0c7458aee27p-6,
                                      0x1.42d9e4c44fdap-8,   -0x1.6ded4a5a5d454p-11};
  static constexpr double erf[15] = {0x1.575b329ac1547p1,    0x1.bc5630ead7771p-1,   0x1.c9fae26bb7a97p-6,
                                     -0x1.786e21a0303d8p-8,  0x1.1cd4a57d05141p-10,  -0x1.736df4d9b60d6p-13,
                                     0x1.5eed7a6da5b29p-16,  -0x1.c1e362e7b1a6cp-25, -0x1.00ab77d003eecp-20,
                                     0x1.6d855d6d4fea1p-22,  -0x1.6a84de4d698f6p-24, 0x1.c640e403c7d59p-26,
                                     -0x1.5984c370c422ep-28, -0x1.66b555770cc34p-30, 0x1.1189ba4b1d0e4p-31};
};

template <>
struct MapContract<double> : MapNumbers {
  static constexpr double erf_end = 6;
  static constexpr const auto &e = ExpContract<double>::c;
  static constexpr double log[7] = {0x1.5555555555592p-1, 0x1.999999997ff54p-2, 0x1.24924941dcbbcp-2,
                                    0x1.c71c52188318fp-3, 0x1.74663c09130f1p-3, 0x1.39a1ffbe63c41p-3,
                                    0x1.2f02d85fb612bp-3};
  static constexpr double atan[20] = {
      -0x1.5555555555526p-2, 0x1.99999999955b4p-3,  -0x1.249249237f57dp-3,  0x1.c71c717fcf76dp-4,
      -0x1.745d11ae74c7ap-4, 0x1.3b13669a2a047p-4,  -0x1.110e5126fd02dp-4,  0x1.e1bba66c1a4b8p-5,
      -0x1.ae5e72c0e6984p-5, 0x1.82dad79d1736p-5,   -0x1.59a3ff2ac6667p-5,  0x1.2c2e5ccfd4e26p-5,
      -0x1.e9fa0da6643e9p-6, 0x1.683cc98472e13p-6,  -0x1.c78fcd542af16p-7,  0x1.d7b927bbdceedp-8,
      -0x1.7a399ad4364a2p-9, 0x1.b3facbcd7bb8ap-11, -0x1.3f364d4b9695cp-13, 0x1.bbed9f7b04237p-17};
  static constexpr double erf[31] = {
      0x1.c966f3b9c2633p1,    0x1.d1f89933316c8p-1,   0x1.024a6acb6595cp-6,   -0x1.6cf1d6e05b51ep-9,
      0x1.f42b6748b5b84p-12,  -0x1.4363e5e2813b2p-14, 0x1.7c832362fa5f6p-17,  -0x1.7a04aea9ddabcp-20,
      0x1.e519ddb60fd1ep-24,  0x1.0a0fe60de48d7p-27,  -0x1.b7e4a6363d452p-28, 0x1.083bb7e9c0e84p-29,
      -0x1.e0dbcd0b1783ap-32, 0x1.6bd400555edb5p-34,  -0x1.c6cf6a121bc88p-37, 0x1.a180e2024a586p-40,
      -0x1.f783fb790cae1p-46, -0x1.d6e82d8636a5fp-45, 0x1.3d07f6bcef6e7p-46,  -0x1.c317732178e3bp-49,
      0x1.0a5210fa5315ap-50,  -0x1.d02744b595322p-52, 0x1.31d42a3ae0b28p-55,  0x1.e9b919db864c3p-56,
      -0x1.53aea7c65e24bp-59, -0x1.32c44a15f8141p-59, 0x1.69d2591fb59fcp-63,  0x1.306a2161b315cp-63,
      -0x1.2dc2f0cff8defp-66, -0x1.91a84fbb7bbe9p-69, 0x1.0149cf109e39bp-71};
  static constexpr double log_pow[8] = {0x1.999999999999ap-2, 0x1.24924924922fbp-2, 0x1.c71c71c74d686p-3,
                                        0x1.745d173c16f47p-3, 0x1.3b13aa1cd751bp-3, 0x1.111540c9d95f6p-3,
                                        0x1.e01cac7482ad3p-4, 0x1.da8543bf609a3p-4};

  static constexpr double two_thirds = 0x1.5555555555555p-1, two_thirds_low = 0x1.5555555555555p-55;
  static constexpr double pow_end = 800;
};

}  // namespace
}  // namespace rapt
