// Computation in long double, against which errors are measured.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

namespace rapt::bench {

using Exact = long double;

// Half the distance from 1 to the next number: 2^-24 or 2^-53.
template <class T>
constexpr Exact unit = std::numeric_limits<T>::epsilon() / 2;

// The sum of term(begin) to term(end - 1), by halves: its own rounding errors stay far below those that it
// measures.
template <class Term>
Exact sum_of(std::size_t begin, std::size_t end, const Term &term) {
  if (end - begin <= 8) {
    Exact sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += term(i);
    return sum;
  }
  const std::size_t middle = begin + (end - begin) / 2;
  return sum_of(begin, middle, term) + sum_of(middle, end, term);
}

// The largest error so far; NaN once an error is NaN.
class Worst {
 public:
  void add(Exact error) {
    if (!(error <= worst_) && !std::isnan(worst_)) worst_ = error;
  }
  double value() const { return static_cast<double>(worst_); }

 private:
  Exact worst_ = 0;
};

}  // namespace rapt::bench
