// The operations of a reduction: how a lane takes an element, and how lanes are joined (contract/reduce.hpp).
//
//   start                   what a lane begins with
//   fill                    an element that changes no lane
//   adds_lanes              whether join() adds
//   take(lane, x, shift)    a lane with one more element. Only where has_shift is set is there a shift, with which
//                           deviation(x, shift) is what take_deviation() takes
//   join(a, b)              two lanes as one
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

template <class A>
struct SumOfLanes {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool adds_lanes = true, has_shift = false;
  static constexpr A start = 0, fill = 0;
  template <class T>
  RAPT_INNER static T join(T a, T b) {
    return a + b;
  }
};

template <class A>
struct AddElements : SumOfLanes<A> {
  using typename SumOfLanes<A>::batch;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return lane + x; }
};

template <class A>
struct AddMagnitudes : SumOfLanes<A> {
  using typename SumOfLanes<A>::batch;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return lane + simd<A>::abs(x); }
};

template <class A>
struct AddSquares : SumOfLanes<A> {
  using typename SumOfLanes<A>::batch;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return simd<A>::fma(x, x, lane); }
};

// The shift is minus the mean, so that x + shift has the bits of x - mean.
template <class A>
struct AddDeviations : SumOfLanes<A> {
  using typename SumOfLanes<A>::batch;
  static constexpr bool has_shift = true;
  RAPT_INNER static batch deviation(batch x, batch shift) { return x + shift; }
  RAPT_INNER static batch take_deviation(batch lane, batch d) { return simd<A>::fma(d, d, lane); }
  RAPT_INNER static batch take(batch lane, batch x, batch shift) {
    return take_deviation(lane, deviation(x, shift));
  }
};

// The shift is a power of two, by which elements are multiplied.
template <class A>
struct AddScaledSquares : SumOfLanes<A> {
  using typename SumOfLanes<A>::batch;
  static constexpr bool has_shift = true;
  RAPT_INNER static batch deviation(batch x, batch scale) { return x * scale; }
  RAPT_INNER static batch take_deviation(batch lane, batch d) { return simd<A>::fma(d, d, lane); }
  RAPT_INNER static batch take(batch lane, batch x, batch scale) {
    return take_deviation(lane, deviation(x, scale));
  }
};

template <class A>
struct MultiplyElements {
  using batch = typename simd<A>::batch;
  static constexpr bool adds_lanes = false, has_shift = false;
  static constexpr A start = 1, fill = 1;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return lane * x; }
  template <class T>
  RAPT_INNER static T join(T a, T b) {
    return a * b;
  }
};

// The levels' maximum and minimum may lose a NaN in the first operand.
template <class A>
struct LargestElement {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool adds_lanes = false, has_shift = false;
  static constexpr A start = -std::numeric_limits<A>::infinity(), fill = start;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return join(x, lane); }
  RAPT_INNER static batch join(batch a, batch b) {
    if constexpr (S::max_keeps_nan) return S::max(a, b);
    return S::select(S::unordered(a, a), a, S::max(a, b));
  }
  RAPT_INNER static A join(A a, A b) { return a != a || a > b ? a : b; }
};

template <class A>
struct SmallestElement {
  using S = simd<A>;
  using batch = typename S::batch;
  static constexpr bool adds_lanes = false, has_shift = false;
  static constexpr A start = std::numeric_limits<A>::infinity(), fill = start;
  RAPT_INNER static batch take(batch lane, batch x, batch) { return join(x, lane); }
  RAPT_INNER static batch join(batch a, batch b) {
    if constexpr (S::max_keeps_nan) return S::min(a, b);
    return S::select(S::unordered(a, a), a, S::min(a, b));
  }
  RAPT_INNER static A join(A a, A b) { return a != a || a < b ? a : b; }
};

template <class A>
struct LargestMagnitude : LargestElement<A> {
  using typename LargestElement<A>::batch;
  static constexpr A start = 0, fill = 0;
  RAPT_INNER static batch take(batch lane, batch x, batch) {
    return LargestElement<A>::join(simd<A>::abs(x), lane);
  }
};

}  // namespace
