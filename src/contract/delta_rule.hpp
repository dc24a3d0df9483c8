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
#pragma once

#include <cstddef>
#include <limits>

namespace rapt {
namespace {

inline constexpr float delta_least = std::numeric_limits<float>::min();

}  // namespace
}  // namespace rapt
