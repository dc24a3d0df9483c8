// Defines what the accuracy measurements of all kernels share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "oracle/bounds.hpp"
#include "oracle/compensated_sum.hpp"
#include "support/bits.hpp"
#include "support/elements.hpp"
#include "support/problem_data.hpp"
#include "validate/accuracy.hpp"

namespace rapt::validate {

using namespace rapt::test;

using Real = long double;
using Bits = std::span<const std::uint64_t>;
inline constexpr double wrong = std::numeric_limits<double>::infinity();

template <class T>
constexpr bool measurable = std::numeric_limits<Real>::digits >= std::numeric_limits<T>::digits + 10;

// `unit` is half the distance from 1 to the next number of the arithmetic type.
template <class T>
constexpr bool is_f64 = in_f64<T>;
template <class T>
constexpr double unit = unit_of<T>;

template <class T>
Real value_of(std::uint64_t bits) {
  return from_bits<T>(static_cast<BitsOf<T>>(bits));
}

inline double as_double(Real value) { return static_cast<double>(value); }

using Sum = CompensatedSum;

struct Worst {
  Judgement judgement;
  void see(double error, double bound) {
    judgement.measured = true;
    // Keeps the error that is largest relative to its bound.
    if (!(error / bound <= judgement.error / judgement.bound))
      judgement.error = error, judgement.bound = bound;
  }
};

// Returns whether sums and products of such inputs neither overflow nor underflow.
inline bool is_moderate(InputClass input) {
  return input == InputClass::uniform || input == InputClass::gaussian ||
         input == InputClass::gaussian_wide || input == InputClass::exp_range;
}

inline bool is_ordinary(double scale) { return std::fabs(scale) >= 0x1p-16 && std::fabs(scale) <= 0x1p16; }

}  // namespace rapt::validate
