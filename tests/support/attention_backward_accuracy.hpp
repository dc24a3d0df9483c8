// The accuracy that rapt.h promises of attention's gradient.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "oracle/attention_backward.hpp"

namespace rapt::test {

inline auto gradient_units(std::size_t qk_dim, std::size_t v_dim) {
  return [=](const oracle::RowTruth &row) {
    const long double of_weights =
        8 + std::fabs(row.lse) + static_cast<long double>(qk_dim + 8) * row.score_terms;
    return oracle::RowUnits{of_weights, of_weights + static_cast<long double>(v_dim)};
  };
}

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
