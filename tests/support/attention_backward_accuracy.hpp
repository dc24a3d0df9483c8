// Measures errors of attention's gradients, relative to their bounds (oracle/bounds.hpp).
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "oracle/attention_backward.hpp"
#include "oracle/bounds.hpp"

namespace rapt::test {

// Returns the largest ratio of an element's error to its bound.
template <class T, class ValueAt>
double gradient_error(std::span<const oracle::Sum> truth, ValueAt &&value_at) {
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const oracle::Sum &sum = truth[i];
    const T got = value_at(i);
    const long double off = std::fabs(static_cast<long double>(got) - sum.value);
    const double share = off == 0 ? 0 : static_cast<double>(off / gradient_bound<T>(sum));
    if (!(share <= worst)) worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  return worst;
}

}  // namespace rapt::test
