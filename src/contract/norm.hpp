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
//   layer_norm   p = the first x of the row
//                a = sum(x - p) / n,  c = p + a,  l = (p - c) + a
//                d = (x - c) - l,  m = sum(d) / n
//                r = 1 / sqrt(fma(-m, m, dot(d, d) / n) + eps)
//                h = fma(x - c, r, -((l + m) * r))
//                y = fma(h, w, b);  without b h * w;  without w h + b
//
//   gradients    g = dy * w
//   of rms_norm    k = ((r * r) * dot(g, x)) / n
//                  dx = r * fma(-x, k, g)
//                  dweight = fma(dy, x * r, dweight)
//   of layer_norm  j = sum(g) / n,  k = dot(g, h) / n
//                  dx = r * fma(-h, k, g - j)
//                  dweight = fma(dy, h, dweight),  dbias = dbias + dy
//
// dweight and dbias add up the rows in order, from 0 or from what they hold.
//
// The statistics of a row are rstd = r, mean = c and mean_rest = l + m. Of elements of 16 bits, gradients are those of
// f32, where x, dy and w are widened and dx is rounded.
//
// A row of equal numbers is its first element everywhere: x - p, a, l, d and m are 0, c is p, and so h is 0. Nothing of
// that depends on n or overflows. If the numbers differ, c is the number of the type next to their mean, l what the
// mean has beyond it, and m the error that is left. So c takes the large part of x away, mostly without rounding, and
// what is rounded afterwards is small.
//
//   rows of 4096, largest error in u     | sum(x) / n | a alone | no m | this one
//   gaussian                             | 3.9        | 4.8     | 3.9  | 3.3
//   gaussian + 100                       | 157        | 3.7     | 3.7  | 2.8
//   the first is 1000, others' relative  | 3.2        | 3500    | 3800 | 7.8
//   all 1234.56                          | 1.7e7      | 0       | 0    | 0
//
// Errors, with u, dot's bound D u as in reductions.hpp, and the terms of rapt.h: z, R, t, e, f, g, s and M. Up to 2^26
// columns, the half units and the slack of D below cover the products of errors.
//
// rms_norm: the terms of dot(x, x) are not negative, so it has the relative error D u. Rounding n, the quotient and the
// sum with eps add 3 u. The root halves these errors and adds u, and so does the quotient: R has the relative error
// (D / 2 + 3.5) u. The product x * r adds u, so t errs by e = (D / 2 + 5) u |t| + z. The product with w adds u |y| + z.
// Terms that underflow change the mean by less than z, which is nothing compared with 2^-100.
//
// layer_norm: let o be the exact mean, S^2 the exact variance, so that S R <= 1, and A the mean of |x - o|, which is at
// most S. The mean of |x - p| is at most sqrt(n) S, because its square is at most S^2 + (p - o)^2 <= S^2 + (n - 1) S^2.
//
//   a      errs by (D + 3) u times the mean of |x - p|, and z / 2
//   l      errs by u |a|, and by nothing if |a| <= |p|. So c + l is next to o: the difference is at most G = g S + z.
//   c      is as near to p + a as any number, so as each x. p + a is within G of o. So |c - o| <= |x - o| + 2 G for each x,
//          and on average |c - o| <= A + 2 G. Thus |l| <= A + 3 G.
//   d      errs by u |x - c| + u (|x - o| + G) <= u (2 |x - o| + A + 3 G), and differs from x - o by o - (c + l) too.
//          On average it errs by 3 u (A + G), and its root mean square by 3 u (S + G).
//   m      should be o - (c + l), and errs by (D + 2) u times the mean of |d|, and by the errors of d: (D + 5) u (A + G) and
//          z / 2. The sum l + m adds u (A + 4 G): it errs by (D + 6) u (A + 4 G).
//   m m    and the mean of d d err by (D + 2) u ((S^2 + G^2) + (A + G) 2 G) <= (D + 2) u (1 + 2 g + 3 g^2) S^2. The errors of
//          d add 6 u (1 + g) S^2, fma and eps 2 u. So r has the relative error (D / 2 + 7) f u, with f = (1 + 2 g)^2.
//   h      has the errors of x - c, u (|x - o| + A + 2 G), of l + m, of its product with r, u (A + 4 G), and of r; its own
//          rounding adds u |t|. With G R <= g + z R: e = ((D / 2 + 9) f |t| + (D + 9) (mean of |t| + 4 g)) u + (1 + R) z.
//
// The product with w, or the fused addition of b, adds u |y| + z.
//
// Gradient of rms_norm: r * r has the relative error (D + 8) u, and k has three operations more, so that its factor
// errs
// by (D + 11) u. The dot product errs by (D + 1) u times the sum of |g x|. So x k errs by (2 D + 12) u of its bound
// B = |x| R^2 * mean of |g x|, g by u |g|, and their fused difference by u (|g| + B). Then r adds its own error, and the
// product u: (D / 2 + 6.5) u |g| + (5 D / 2 + 17.5) u B, times R. weight_plus_one adds u to both.
//
// Gradient of layer_norm: j errs by (D + 3) u times the mean of |g|, and k by (D + 3) u M + mean of |g| e. So h k errs by
// s times that, and by e M, and the difference of g and j by u (2 |g|) + (D + 4) u times the mean of |g|. The fused
// difference, r and the product add ((D / 2 + 7) f + 2) u of |g| + mean of |g| + s M.
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
