// Computes what rms_norm and layer_norm make of a row, and how much of it may be off. The names are the letters of rapt.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "oracle/bounds.hpp"
#include "oracle/compensated_sum.hpp"

namespace rapt::test {

// For layer_norm, the x are what they are beyond the row's first element, so that the judge keeps the differences of
// nearly equal numbers. A is the arithmetic type.
template <class A>
struct NormRow {
  using Real = long double;
  bool is_layer;
  std::vector<Real> x;
  Real mean = 0, under_root, root, mean_t = 0;

  NormRow(std::vector<Real> row, double eps, bool layer) : is_layer(layer), x(std::move(row)) {
    const std::size_t n = x.size();
    for (std::size_t i = n; is_layer && i > 0; --i) x[i - 1] -= x[0];
    if (is_layer) mean = mean_of(n, [&](std::size_t i) { return x[i]; });
    const Real variance = mean_of(n, [&](std::size_t i) { return (x[i] - mean) * (x[i] - mean); });
    under_root = variance + Real{static_cast<A>(eps)};
    root = 1 / std::sqrt(under_root);
    if (is_layer) mean_t = mean_of(n, [&](std::size_t i) { return std::fabs(t(i)); });
  }
  // Returns whether the header promises anything: sums must not overflow, nor the mean square be tiny.
  bool is_in_range() const {
    const Real least = in_f64<A> ? 0x1p-960L : 0x1p-100L, largest = std::numeric_limits<A>::max() / 8;
    const Real n = static_cast<Real>(x.size());
    return under_root >= least && under_root * n < largest &&
           mean_of(x.size(), [&](std::size_t i) { return std::fabs(x[i]); }) * n < largest;
  }
  Real t(std::size_t i) const { return (x[i] - mean) * root; }
  Real e(std::size_t i) const {
    const Real size = std::fabs(t(i));
    return is_layer ? layer_norm_error<A>(x.size(), size, mean_t, root) : rms_norm_error<A>(x.size(), size);
  }
  Real s(std::size_t i) const { return std::fabs(t(i)) + e(i); }
};

}  // namespace rapt::test
