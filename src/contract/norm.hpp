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
// Errors, with u, dot's bound D u and dot_stretch as in reductions.hpp. The terms of dot(x, x) are not negative,
// so it has the relative error D u. Rounding n, the quotient, eps and the sum with it add at most 3 u. The root
// halves these errors and adds u, as does the quotient; the two products add 2 u. So y has the relative error
// (D / 2 + 6) u, where D includes 2 for products of errors; weight + 1 adds u.
//
// In layer_norm, m errs by at most (D + 2) u times the mean of |x|; call that e. So d errs by e + u |d|. The sum of
// (x - m)^2 exceeds that of the exact deviations by n e^2, so r is too small by at most the factor 1 - (e r)^2 / 2.
// The rest of r errs as above, plus u for the rounding of d. With q = e r, d * r errs by
// ((D / 2 + 7) u + q^2) |d r| + q. A bias adds u |y|.
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
