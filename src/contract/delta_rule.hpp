// Defines the arithmetic of rapt_delta_rule. For each token, on a state S of f32 with n rows, one for each key
// dimension:
//
//   S[i][j] = S[i][j] * a[i]          without decay a is 1, which changes nothing but subnormal numbers
//   r[j]    = chain over i, ascending from +0, of fma(k[i], S[i][j], r[j])
//   u[j]    = beta * (v[j] - r[j])    both rounded; without delta u = v
//   S[i][j] = fma(k[i], u[j], S[i][j])
//   o[j]    = scale * (chain over i, ascending from +0, of fma(q[i], S[i][j], o[j]))
//
// Every operation works as on x86 under FTZ and DAZ. A subnormal operand counts as a zero of its sign. A result that
// is tiny after rounding, as if exponents had no limit, becomes a zero of its sign. So a state that decays is as fast
// as any other, and needs no position that says when to clear it: chunks may begin anywhere.
//
// Errors. Write |S a| for the exact products, n for the rows and D for what flushes add. S a errs by u, and a chain of n
// terms by (n + 1) u of R = sum |k S a|. u errs by two roundings more of |beta| (|v| + R), and the new S by one more of
// both terms. The chain of o adds n + 1 to the errors of S, and the scale one. rapt.h has the sums. Its constants hold
// terms of second order up to n = 2^20.
//
// Gradients. G is the gradient of the state after a token, A the decayed state, and p = scale * dout. For each token,
// the last one first, and of several queries first all dq and G:
//
//   dq[i]   = sum over j of fma(S[i][j], p[j])
//   G[i][j] = fma(q[i], p[j], G[i][j])
//   w[j]    = chain over i, ascending from +0, of fma(k[i], G[i][j], w[j])
//   dv[j]   = beta * w[j]                                     without delta dv = w
//   dbeta   = sum over j of fma(w[j], v[j] - r[j])
//   dk[i]   = sum over j of fma(G[i][j], u[j]), then fma(A[i][j], -dv[j])     without delta the first alone
//   G[i][j] = fma(k[i], -dv[j], G[i][j])                      only with delta
//   dg[i]   = sum over j of fma(G[i][j], A[i][j])             that of a head: sum over i of fma(dg[i], 1)
//   G[i][j] = G[i][j] * a[i]
//
// Sums have delta_lanes lanes from +0. Lane j mod 16 takes term j, with j ascending. Terms that are missing at the end
// are products of zeros. Lanes fold by halves, lane l with lane l + half.
#pragma once

#include <cstddef>
#include <limits>

namespace rapt {
namespace {

inline constexpr float delta_least = std::numeric_limits<float>::min();
inline constexpr std::size_t delta_lanes = 16;  // of the sums over columns

}  // namespace
}  // namespace rapt
