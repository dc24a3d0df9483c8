// The orders of reductions: lane i mod `lanes` takes element i, and lanes fold by halves down to one.
//
// Missing elements of the tail count as +0 terms. A fold by halves pairs the same lanes under any rotation,
// so a kernel may start its lanes anywhere.
#pragma once

#include <cstddef>

namespace rapt {
namespace {

// A dot product: 64 lanes in f32, 32 in f64.
template <class A>
inline constexpr std::size_t dot_lanes = 256 / sizeof(A);

// A sum of exponentials: 32 lanes in f32, 16 in f64. Twice as many would spill on AVX2.
template <class A>
inline constexpr std::size_t sum_lanes = 128 / sizeof(A);

// After each section of this many terms the lanes are added to lanes of f64, which in f64 also keep what each
// addition loses. A single level of lanes errs by 26 units at a million terms.
inline constexpr std::size_t sum_section = 2048;

}  // namespace
}  // namespace rapt
