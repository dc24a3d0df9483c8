// The orders of reductions: which lanes take which elements, and how lanes fold.
//
// Missing elements of the tail count as +0 terms. A fold by halves adds lane i and lane i + half, down to
// one. It pairs the same lanes under any rotation, so a dot product may start its lanes anywhere.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

// A dot product: lane i mod `dot_lanes` takes element i; 64 lanes in f32, 32 in f64; a fold by halves.
template <class A>
inline constexpr std::size_t dot_lanes = 256 / sizeof(A);

// A sum of exponentials, for which every row has one error bound.
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
// A probability is e / sum. The errors of a row's exponentials lie within 3 u of each other: in f32
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
