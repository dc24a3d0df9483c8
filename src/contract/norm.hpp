// Defines the order of operations of rms_norm, layer_norm and their gradients, for all instruction-set levels.
// Every operation rounds once to the arithmetic type; fma(a, b, c) is fused. A row has n elements, and n and eps
// are rounded to the arithmetic type. sum(v) and dot(a, b) add as a dot product does (reductions.hpp); sum(v) is
// the dot product with a vector of ones. Square root and quotient are correctly rounded.
//
//   w, b         weight and bias; w + 1 in place of w if weight_plus_one is set. What is null is left out
//   x            x, or x + residual rounded to the element type
//
//   rms_norm     r = 1 / sqrt(dot(x, x) / n + eps)
//                y = (x * r) * w
//
//   layer_norm   m = sum(x) / n,  d = x - m
//                r = 1 / sqrt(dot(d, d) / n + eps)
//                y = fma(d * r, w, b);  without b (d * r) * w;  without w d * r + b
//
//   gradients    g = dy * w
//   of rms_norm    k = ((r * r) * dot(g, x)) / n
//                  dx = r * fma(-x, k, g)
//                  dweight = fma(dy, x * r, dweight)
//   of layer_norm  h = d * r,  a = sum(g) / n,  k = dot(g, h) / n
//                  dx = r * fma(-h, k, g - a)
//                  dweight = fma(dy, h, dweight),  dbias = dbias + dy
//
// dweight and dbias add up the rows in order, from 0 or from what they hold.
//
// Errors, with u, dot's bound D u as in reductions.hpp, and the terms of rapt.h: z, R, t, e, q, g, s and M. Up to 2^26
// columns, the half units and the slack of D below cover the products of errors.
//
// rms_norm: the terms of dot(x, x) are not negative, so it has the relative error D u. Rounding n, the quotient and the
// sum with eps add 3 u. The root halves these errors and adds u, and so does the quotient: R has the relative error
// (D / 2 + 3.5) u. The product x * r adds u, so t errs by e = (D / 2 + 5) u |t| + z. The product with w adds u |y| + z.
// Terms that underflow change the mean by less than z, which is nothing next to 2^-100.
//
// layer_norm: m errs by at most (D + 2) u times the mean of |x|, and z; call that E. So d errs by E + u |d|. The mean of
// (x - m)^2 exceeds that of the exact deviations by E^2, so r is too small by at most the factor 1 - (E R)^2 / 2. The
// rest of r errs as above, and by u for the rounding of d: (D / 2 + 4.5) u. With q = E R + z, d * r errs by
// e = ((D / 2 + 6.5) u + q^2 / 2) |t| + q. The product with w, or the fused addition of b, adds u |y| + z.
//
// Gradient of rms_norm: r * r has the relative error (D + 8) u, and k has three operations more, so that its factor errs
// by (D + 11) u. The dot product errs by (D + 1) u times the sum of |g x|. So x k errs by (2 D + 12) u of its bound
// B = |x| R^2 * mean of |g x|, g by u |g|, and their fused difference by u (|g| + B). Then r adds its own error, and the
// product u: (D / 2 + 6.5) u |g| + (5 D / 2 + 17.5) u B, times R. weight_plus_one adds u to both.
//
// Gradient of layer_norm: a errs by (D + 3) u times the mean of |g|, and k by (D + 3) u M + mean of |g| e. So h k errs by
// s times that, and by e M, and the difference of g and a by u (2 |g|) + (D + 4) u times the mean of |g|. The fused
// difference and r add (D / 2 + 6.5) u + q^2 / 2 of |g| + mean of |g| + s M.
//
// dweight is a chain of fused operations: k of them err by at most k u / (1 - k u) times the sum of the magnitudes.
// dbias is a recursive sum, whose bound needs no such factor (Rump 2012).
#pragma once

#if defined(__x86_64__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace rapt {
namespace {

// Returns the correctly rounded square root, NaN for a negative number. The compiler would call libm's sqrt for
// such a number to set errno, so these are instructions that every x86-64 and every AArch64 has.
#if defined(__x86_64__)
inline float square_root(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
inline double square_root(double x) {
  const __m128d v = _mm_set_sd(x);
  return _mm_cvtsd_f64(_mm_sqrt_sd(v, v));
}
#elif defined(__aarch64__)
inline float square_root(float x) { return vget_lane_f32(vsqrt_f32(vdup_n_f32(x)), 0); }
inline double square_root(double x) { return vget_lane_f64(vsqrt_f64(vdup_n_f64(x)), 0); }
#else
inline float square_root(float x) { return __builtin_sqrtf(x); }
inline double square_root(double x) { return __builtin_sqrt(x); }
#endif

}  // namespace
}  // namespace rapt
