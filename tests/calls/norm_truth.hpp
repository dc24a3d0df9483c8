// What rms_norm, layer_norm and their gradients should give: the exact numbers of a row, the bounds of rapt.h, whose
// letters the names here are, and its special values.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "calls/norm.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// For layer_norm, the x are what they are beyond the row's first element, so that the judge keeps the differences of
// nearly equal numbers. A is the arithmetic type.
template <class A>
struct NormRow {
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
  // Returns whether the header promises accuracy: sums must not overflow, nor the mean square be tiny.
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

// The judge's own error shows where a result's only error is its last rounding: long double has 11 bits more than f64.
template <class T>
inline constexpr double whole_share = is_f64<Number<T>> ? 1 + 0x1p-8 : 1;

template <class T>
inline constexpr Real largest = std::numeric_limits<Number<T>>::max() / 8;

// Holds the exact numbers of a row of the problem, and the factors of t.
template <class T>
struct NormTruth : NormRow<Number<T>> {
  using A = Number<T>;
  bool is_plus_one, has_bias;
  std::vector<Real> given, w;  // given: layer_norm's x are differences

  NormTruth(const Problem &problem, const NormValues<T> &values, bool layer, std::size_t r, bool adds)
      : NormRow<A>(row_of(values, r * problem.cols(), problem.cols(), adds), problem.as<NormProblem>().eps,
                   layer),
        given(row_of(values, r * problem.cols(), problem.cols(), adds)) {
    const NormProblem &wanted = problem.as<NormProblem>();
    is_plus_one = wanted.weight && wanted.plus_one && !layer;
    has_bias = wanted.bias;
    for (std::size_t i = 0; i < wanted.cols; ++i)
      w.push_back(wanted.weight ? Real{A(values.weight[i])} + (is_plus_one ? 1 : 0) : Real{1});
  }

 private:
  // With `adds`, the row is that of x + residual, rounded to the type.
  static std::vector<Real> row_of(const NormValues<T> &values, std::size_t first, std::size_t n, bool adds) {
    std::vector<Real> row;
    for (std::size_t i = first; i < first + n; ++i) {
      T value = values.x[i];
      if (adds) value = static_cast<T>(static_cast<A>(A(value) + A(values.second[i])));
      row.push_back(Real{A(value)});
    }
    return row;
  }
};

// What rapt.h says of the rows that have no accuracy.
enum class NormRowKind {
  accurate,   // or of no promise
  nan,        // every element is NaN
  normal_0,   // every element is 0 times the weight, plus the bias
  infinities  // rms_norm: NaN where the row is infinite, else 0 times the weight
};

template <class A>
NormRowKind kind_of(const std::vector<Real> &x, double eps, bool is_layer) {
  const Real most = std::numeric_limits<A>::max();
  bool has_infinity = false, is_equal = true, is_zero = true;
  Real squares = 0, difference = 0;
  for (const Real value : x) {
    if (std::isnan(value)) return NormRowKind::nan;
    has_infinity = has_infinity || std::isinf(value);
    is_equal = is_equal && value == x[0];
    is_zero = is_zero && value == 0;
    squares += value * value;
    difference = std::max(difference, std::fabs(value - x[0]));
  }
  if (has_infinity) return is_layer ? NormRowKind::nan : NormRowKind::infinities;
  const bool is_nan_by_eps = static_cast<A>(eps) == 0 && (is_layer ? is_equal : is_zero);
  if (is_nan_by_eps || (is_layer && difference > 1.01L * most)) return NormRowKind::nan;
  if (is_layer && is_equal) return NormRowKind::normal_0;
  return !is_layer && squares > 1.01L * most ? NormRowKind::normal_0 : NormRowKind::accurate;
}

template <class T, bool is_layer>
struct NormAccuracyOf {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = whole_share<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    const NormProblem &wanted = problem.as<NormProblem>();
    Worst worst;
    const NormValues<T> values = make_norm_values<T>(problem);
    const Real u = unit<A>, z = smallest<A>, most = std::numeric_limits<T>::max() / A(2);
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const NormTruth<T> row(problem, values, is_layer, r, wanted.second);
      const Bits got = bits.subspan(r * wanted.cols, wanted.cols);
      if (wanted.second &&
          !is_sum(values, r * wanted.cols, bits.subspan((wanted.rows + r) * wanted.cols, wanted.cols)))
        worst.see(wrong, bound);
      const NormRowKind kind = kind_of<A>(row.given, wanted.eps, is_layer);
      if (kind != NormRowKind::accurate) worst.see(is_as_said(kind, row, values, got) ? 0 : wrong, bound);
      if (kind != NormRowKind::accurate || !row.is_in_range()) continue;
      for (std::size_t i = 0; i < wanted.cols; ++i) {
        Real exact = row.t(i) * row.w[i];
        if (is_layer && wanted.bias) exact += Real{A(values.bias[i])};
        Real allowed = std::fabs(row.w[i]) * row.e(i) + (row.is_plus_one ? 2 : 1) * u * std::fabs(exact) + z;
        if (!(std::fabs(exact) + allowed < most)) continue;
        if (sizeof(T) == 2) {
          constexpr int digits = std::numeric_limits<T>::digits;
          allowed += std::ldexp(std::fabs(exact) + allowed, -digits) +
                     std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1);
        }
        worst.see(as_double(std::fabs(value_of<T>(bits[r * wanted.cols + i]) - exact) / allowed), bound);
      }
    }
    return worst.judgement;
  }

 private:
  // Whether these are the bits of x + residual, rounded to the type.
  static bool is_sum(const NormValues<T> &values, std::size_t first, Bits got) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const A sum = A(values.x[first + i]) + A(values.second[first + i]);
      if (got[i] != canonical_bits(static_cast<T>(sum))) return false;
    }
    return true;
  }
  static bool is_as_said(NormRowKind kind, const NormTruth<T> &row, const NormValues<T> &values, Bits got) {
    for (std::size_t i = 0; i < got.size(); ++i) {
      const Real y = value_of<T>(got[i]);
      const Real bias = is_layer && row.has_bias ? Real{A(values.bias[i])} : 0;
      const bool is_nan = kind == NormRowKind::nan || !std::isfinite(row.w[i]) ||
                          (kind == NormRowKind::infinities && std::isinf(row.given[i]));
      if (is_nan ? !std::isnan(y) : y != bias) return false;
    }
    return true;
  }
};
template <class T>
using RmsNormAccuracy = NormAccuracyOf<T, false>;
template <class T>
using LayerNormAccuracy = NormAccuracyOf<T, true>;

template <class T, bool is_layer>
struct NormBackwardAccuracyOf {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = whole_share<T>;
  static constexpr Real u = unit<T>, z = smallest<T>;

  // Holds what the gradients of weight or bias should be, and the magnitudes that their bounds have.
  struct Totals {
    std::vector<Real> exact, errors, sizes;
    explicit Totals(std::size_t n) : exact(n), errors(n), sizes(n) {}
    void add(std::size_t i, Real term, Real error, Real size) {
      exact[i] += term;
      errors[i] += error;
      sizes[i] += size;
    }
    void see(Worst &worst, Bits got, std::span<const T> first, bool accumulates, Real rows_factor,
             Real rows) const {
      for (std::size_t i = 0; i < exact.size(); ++i) {
        const Real start = accumulates ? Real{first[i]} : 0;
        const Real allowed = errors[i] + rows_factor * u * (std::fabs(start) + sizes[i]) + rows * z;
        if (!(std::fabs(start) + sizes[i] + allowed < largest<T>)) continue;
        const Real off = std::fabs(value_of<T>(got[i]) - exact[i] - start);
        worst.see(off == 0 ? 0 : as_double(off / allowed), bound);
      }
    }
  };

  // Judges dx of a row. Returns false if the header promises nothing, because a sum may overflow.
  static bool see_row(const NormTruth<T> &row, std::span<const T> gradients, Bits got, Worst &worst) {
    const std::size_t n = gradients.size();
    const Real upper = is_f64<T> ? 0x1p1021L : 0x1p125L;
    if (!row.is_in_range() || !(row.under_root <= upper)) return false;
    const auto g = [&](std::size_t i) { return Real{gradients[i]} * row.w[i]; };
    const auto size_g = [&](std::size_t i) { return std::fabs(g(i)); };
    const Real root = row.root, count = static_cast<Real>(n);
    const Real d{dot_bound<T>(n)}, f{layer_norm_growth<T>(n)};
    const Real mean = is_layer ? mean_of(n, g) : 0;
    const Real product = mean_of(n, [&](std::size_t i) { return g(i) * row.t(i); });
    const Real mean_size = mean_of(n, size_g);
    const Real most_product = mean_of(n, [&](std::size_t i) { return size_g(i) * row.s(i); });
    const Real error_product = mean_of(n, [&](std::size_t i) { return size_g(i) * row.e(i); });
    // rms_norm sums g x, and multiplies the sum by R^2.
    const Real sums = count * (mean_size + most_product * (1 + 1 / root) * (1 + root));
    if (!(sums < largest<T>)) return false;
    for (std::size_t i = 0; i < n; ++i) {
      const Real t = row.t(i), s = row.s(i);
      const Real exact = root * (g(i) - mean - t * product);
      Real allowed;
      if (is_layer) {
        allowed = root * ((3 * d / 2 + 14) * f * u * (size_g(i) + mean_size + s * most_product) +
                          s * error_product + row.e(i) * most_product) +
                  3 * (1 + root) * (1 + s) * z;
      } else {
        const Real magnitude =
            std::fabs(t) * mean_of(n, [&](std::size_t j) { return std::fabs(g(j) * row.t(j)); });
        allowed = root * u * ((d / 2 + 8) * size_g(i) + (5 * d / 2 + 20) * magnitude) +
                  3 * (1 + root) * (1 + root) * (1 + std::fabs(t)) * z;
      }
      if (!((1 + root) * (size_g(i) + mean_size + s * most_product * (1 + 1 / root)) < largest<T>)) continue;
      worst.see(as_double(std::fabs(value_of<T>(got[i]) - exact) / allowed), bound);
    }
    return true;
  }

  static Judgement judge(const Problem &problem, Bits bits) {
    const NormProblem &wanted = problem.as<NormProblem>();
    const std::size_t n = wanted.cols;
    const NormValues<T> values = make_norm_values<T>(problem);
    const Real rows = static_cast<Real>(wanted.rows);
    Worst worst;
    Totals dweight(n), dbias(n);
    bool all_in_range = true;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const NormTruth<T> row(problem, values, is_layer, r, false);
      const std::span<const T> gradients = std::span<const T>(values.second).subspan(r * n, n);
      if (!see_row(row, gradients, bits.subspan(r * n, n), worst)) all_in_range = false;
      for (std::size_t i = 0; i < n; ++i) {
        const Real dy{gradients[i]}, size = std::fabs(dy);
        dweight.add(i, dy * row.t(i), size * row.e(i), size * row.s(i));
        dbias.add(i, dy, 0, size);
      }
    }
    if (!all_in_range || !wanted.bias) return worst.judgement;
    dweight.see(worst, bits.subspan(wanted.rows * n, n), values.weight, wanted.second, 1.01L * rows, rows);
    if (is_layer)
      dbias.see(worst, bits.subspan((wanted.rows + 1) * n, n), values.bias, wanted.second, rows, 0);
    return worst.judgement;
  }
};
template <class T>
using RmsNormBackwardAccuracy = NormBackwardAccuracyOf<T, false>;
template <class T>
using LayerNormBackwardAccuracy = NormBackwardAccuracyOf<T, true>;

}  // namespace rapt::validate
