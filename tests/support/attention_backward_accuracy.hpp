// The errors of attention's gradient, as shares of their bounds (oracle/bounds.hpp).
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "oracle/attention_backward.hpp"
#include "oracle/bounds.hpp"

namespace rapt::test {

// The worst error of a gradient, as a share of its bound.
template <class T, class ValueAt>
double gradient_error(std::span<const oracle::Sum> truth, ValueAt &&value_at) {
  constexpr long double unit = std::numeric_limits<T>::epsilon() / 2;
  // Weights below this are 0, and products may vanish.
  const long double lowest = std::ldexp(1.0L, sizeof(T) == 4 ? -125 : -1021);
  double worst = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    const oracle::Sum &sum = truth[i];
    const auto terms = static_cast<long double>(sum.terms);
    const T got = value_at(i);
    const long double off = std::fabs(static_cast<long double>(got) - sum.value);
    const long double bound = unit * (sum.units + terms * sum.magnitude) + lowest * (sum.unweighted + terms);
    const double share = off == 0 ? 0 : static_cast<double>(off / bound);
    if (!(share <= worst)) worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  return worst;
}

}  // namespace rapt::test
