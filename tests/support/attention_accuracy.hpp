// Measures the errors of attention in the units that oracle/bounds.hpp uses.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "oracle/attention.hpp"
#include "oracle/bounds.hpp"
#include "support/elements.hpp"

namespace rapt::test {

// The numbers in `out` must be exact in E.
template <class E>
AttentionErrors attention_errors(const oracle::AttentionTruth &truth, std::span<const Number<E>> out,
                                 Number<E> lse) {
  using T = Number<E>;
  constexpr long double unit = std::numeric_limits<T>::epsilon() / 2;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  AttentionErrors errors;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const long double off = distance<E>(static_cast<long double>(out[d]), truth.out[d]);
    const double error = off == 0 ? 0 : static_cast<double>(off / (unit * truth.largest_value));
    if (!(error <= errors.out)) errors.out = std::isnan(error) ? wrong : error;
  }
  const long double off = std::fabs(static_cast<long double>(lse) - truth.lse);
  errors.lse = std::isfinite(lse) ? static_cast<double>(off / unit) : wrong;
  return errors;
}

}  // namespace rapt::test
