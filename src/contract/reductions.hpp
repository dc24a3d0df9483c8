// Defines the orders of reductions: which lanes add which elements, and how lanes fold.
//
// Missing elements of the tail count as +0 terms. A fold by halves adds lane i and lane i + half, down to
// one. It pairs the same lanes under any rotation, so a dot product may start its lanes anywhere.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

// In a dot product, lane i mod `dot_lanes` adds element i by a fused operation. There are 64 lanes in f32,
// and 32 in f64. A lane adds `dot_chain` elements of a stretch, which has 32768 elements (f64: 16384). The
// lanes of every stretch begin at 0. They are added to the lanes of the stretches before it, and the sums
// fold by halves.
//
// So no chain is longer than 512, and the error has a bound for every input. Let T be the sum of the
// magnitudes of n products, and m the number of stretches. The error is at most the sum of these, times u * T:
//
//   min(n / 64, 512), rounded up   the fused operations of a lane (f64: n / 32)
//   m - 1 < n / 32768              a recursive sum of m numbers: (m - 1) * u * (the sum of their magnitudes)
//   6 (f64: 5)                     the additions of the fold
//
// rapt.h adds 8 in place of 6. Rounding up takes less than 1 of it, and only from a single stretch. The rest
// is for errors of errors: the lanes that are added exceed their terms by (1 + 513 u), and the fold adds what
// m additions have changed. That is below 1.1 up to 2^30 elements of f32, and of f64 at every n. A fused
// operation with a subnormal result errs by at most half the smallest number instead.
//
// The recursive sum: with x_m the last number and T_m the sum of m magnitudes, its error e_m is at most
// (m - 1) u T_m. The last addition errs by at most |x_m|, as the sum before it is a number of the type, and
// by at most u (T_m + e_(m-1)). Where |x_m| <= u T_(m-1), e_m <= (m - 2) u T_(m-1) + u T_(m-1). Otherwise
// e_m <= e_(m-1) + u T_m + u (m - 2) u T_(m-1), whose last term is below (m - 2) u |x_m|.
template <class A>
inline constexpr std::size_t dot_lanes = 256 / sizeof(A);
inline constexpr std::size_t dot_chain = 512;
template <class A>
inline constexpr std::size_t dot_stretch = dot_chain *dot_lanes<A>;

// This is the order of a sum of exponentials. One error bound holds for every row.
//
// A block of 64 terms is 4 vectors of 16 lanes in f32, 8 vectors of 8 lanes in f64. Neighbouring vectors are
// added in pairs, their sums in pairs, down to one vector. In f32 its lanes become f64, and lane i + 8 is
// added to lane i. Eight lanes of f64 total the blocks, and fold by halves. In f64 arithmetic the total and
// its fold also keep what each addition loses (Knuth's two-sum), where there is more than one block.
//
// All terms are positive, so an addition errs by at most one unit u (2^-24, 2^-53) of what it adds. Up to f64
// a term goes through two additions of f32: the sum errs by 2 u, and what f64 adds is below u / 64 at 2^29
// terms. In f64 arithmetic a term goes through three additions in its block, and three more in the fold of a
// single block: 6 u; of several blocks 3 u and the rounding of the result.
//
// A probability is e / sum. The errors of a row's exponentials are within 3 u of each other: in f32
// within 2.53 u over all arguments, and with the constants of 3000 scales within 2.75 u and the rounding of
// r. So an exponential and the mean of those in its sum differ by at most 3 u. With 2 u (6 u) of the sum and
// 1 u of the quotient, a probability errs by at most 6 u (10 u).
//
// A chain per lane in f32 has no such bound: a term near 1 loses up to half a unit with each small term
// behind it. A tree of 128 terms has three additions and needs 7 u.
inline constexpr std::size_t sum_block = 64;
template <class A>
inline constexpr std::size_t sum_lanes = 64 / sizeof(A);
inline constexpr std::size_t total_lanes = 8;

}  // namespace
}  // namespace rapt
