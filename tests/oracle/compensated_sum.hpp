// Adds numbers, and compensates for rounding errors.
#pragma once

#include <cmath>
#include <cstddef>

namespace rapt::test {

// Neumaier's sum.
class CompensatedSum {
 public:
  void add(long double term) {
    const long double sum = sum_ + term;
    lost_ += std::fabs(sum_) >= std::fabs(term) ? (sum_ - sum) + term : (term - sum) + sum_;
    sum_ = sum;
  }
  long double value() const { return sum_ + lost_; }

 private:
  long double sum_ = 0, lost_ = 0;
};

// Returns the mean of value(i) for i < n.
template <class Value>
long double mean_of(std::size_t n, Value value) {
  CompensatedSum sum;
  for (std::size_t i = 0; i < n; ++i) sum.add(value(i));
  return sum.value() / static_cast<long double>(n);
}

}  // namespace rapt::test
