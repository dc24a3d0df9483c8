// Defines the orders of reductions: which lanes add which elements, and in which order lanes are added.
//
// Missing elements of the tail count as +0 terms. A fold by halves adds lane i + half to lane i, until one
// lane is left. It pairs the same lanes if the lanes are rotated, so a dot product may begin in any lane.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

// In a dot product, lane i mod `dot_lanes` adds element i by a fused operation. There are 64 lanes in f32,
// and 32 in f64. Elements form stretches of 32768 (f64: 16384), so that a lane adds `dot_chain` elements per
// stretch. The lanes of every stretch begin at 0. They are added to the lanes of the earlier stretches, and
// the totals are folded by halves.
//
// So no chain is longer than 512, and the error has a bound for every input. Let T be the sum of the
// magnitudes of n products, and m the number of stretches. The error is at most the sum of these, times u * T:
//
//   min(n / 64, 512), rounded up   the fused operations of a lane (f64: n / 32)
//   m - 1 < n / 32768              a recursive sum of m numbers: (m - 1) * u * (the sum of their magnitudes)
//   6 (f64: 5)                     the additions of the fold
//
// rapt.h has 8 in place of 6. Rounding n / 64 up takes less than 1 of the difference, and only with a single
// stretch. The rest is for products of errors: a lane that is added may exceed the sum of its terms by the
// factor 1 + 513 u, and the fold adds lanes that m additions have changed. This takes less than 1.1 for up to
// 2^30 elements of f32, and for any number of f64. Where a fused operation has a subnormal result, it errs by
// at most half the smallest number instead.
//
// Proof for the recursive sum: let x_m be the last number, T_m the sum of the m magnitudes, and e_m the error
// of the sum. By induction, e_m is at most (m - 1) u T_m. The last addition errs by at most |x_m|, because
// the sum before it is a number of the type. It also errs by at most u (T_m + e_(m-1)). If |x_m| <= u
// T_(m-1), then e_m <= (m - 2) u T_(m-1) + u T_(m-1). Otherwise e_m <= e_(m-1) + u T_m + u (m - 2) u T_(m-1),
// whose last term is below (m - 2) u |x_m|.
template <class A>
inline constexpr std::size_t dot_lanes = 256 / sizeof(A);
inline constexpr std::size_t dot_chain = 512;
template <class A>
inline constexpr std::size_t dot_stretch = dot_chain *dot_lanes<A>;

// Sums of exponentials have this order, so that one error bound holds for every row.
//
// A block of 64 terms is 4 vectors of 16 lanes in f32, and 8 vectors of 8 lanes in f64. Neighbouring vectors
// are added in pairs, then their sums in pairs, until one vector is left. In f32 its lanes are widened to
// f64, and lane i + 8 is added to lane i. Eight lanes of f64 hold the totals over the blocks, and are folded
// by halves. In f64 arithmetic with more than one block, the totals and their fold also keep the rounding
// error of each addition (Knuth's two-sum).
//
// All terms are positive, so an addition has a relative error of at most u (f32: 2^-24, f64: 2^-53). In f32,
// a term goes through two additions before it becomes f64, so the sum errs by 2 u. The additions of f64 add
// less than u / 64 for up to 2^29 terms. In f64 arithmetic, a term goes through three additions in its block.
// A single block has three more in the fold, so its sum errs by 6 u. Several blocks err by 3 u and the
// rounding of the result.
//
// A probability is e / sum, where e is an exponential. The errors of a row's exponentials differ by at most 3
// u. In f32, they differ by at most 2.53 u over all arguments. With the constants of 3000 scales, they differ
// by at most 2.75 u and the rounding of r. So the error of e differs by at most 3 u from the mean error of
// the exponentials in the sum. With 2 u (f64: 6 u) of the sum and 1 u of the quotient, a probability errs by
// at most 6 u (f64: 10 u).
//
// A chain per lane in f32 would have no such bound: a sum near 1 would lose up to half a unit with each small
// term that follows. A block of 128 terms would need three additions in f32, and 7 u.
inline constexpr std::size_t sum_block = 64;
template <class A>
inline constexpr std::size_t sum_lanes = 64 / sizeof(A);
inline constexpr std::size_t total_lanes = 8;

}  // namespace
}  // namespace rapt
