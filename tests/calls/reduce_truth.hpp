// What rapt_reduce should give: the exact numbers, the bounds of rapt.h, and its special values.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>
#include <vector>

#include "calls/reduce.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Measures every result's error relative to its bound. Where rapt.h says exactly what a result is, any other is wrong.
template <class T>
struct ReduceAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = is_f64<A> ? 1 + 0x1p-8 : 1 + 0x1p-20;  // the judge's own error
  static constexpr Real u = unit<A>, z = smallest<A>, most = std::numeric_limits<A>::max();

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<ReduceProblem>();
    const auto outputs = elements_of_outputs(wanted, make_operands<T>(Family::reduce, problem).first);
    Worst worst;
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const Output output(outputs[o], wanted);
      output.see(bits[o], worst);
      const bool has_mean = wanted.operation_of() == RAPT_VARIANCE && wanted.mean;
      if (has_mean) output.see_mean(bits[outputs.size() + o], worst);
    }
    return worst.judgement;
  }

 private:
  struct Output {
    const ReduceProblem &wanted;
    std::vector<Real> x;
    std::size_t n;
    bool has_nan = false, has_plus = false, has_minus = false;
    Real sum_ = 0, sizes = 0, d;

    Output(const std::vector<T> &elements, const ReduceProblem &of)
        : wanted(of), n(elements.size()), d(static_cast<Real>(dot_bound<A>(n))) {
      Sum sum, magnitudes;
      for (const T element : elements) {
        const Real value = A(element);
        x.push_back(value);
        has_nan = has_nan || std::isnan(value);
        has_plus = has_plus || (std::isinf(value) && value > 0);
        has_minus = has_minus || (std::isinf(value) && value < 0);
      }
      for (const Real value : x) {
        if (std::isfinite(value)) sum.add(value), magnitudes.add(std::fabs(value));
      }
      sum_ = sum.value();
      sizes = magnitudes.value();
    }
    bool is_finite() const { return !has_nan && !has_plus && !has_minus; }
    Real count() const { return static_cast<Real>(n); }

    void see_number(std::uint64_t bits, Real exact, Real allowed, Worst &worst) const {
      const bool is_narrow = sizeof(T) == 2 && !wanted.wide_out;
      const Real got = is_narrow ? value_of<T>(bits) : value_of<A>(bits);
      if (std::isnan(exact)) return worst.see(std::isnan(got) ? 0 : wrong, bound);
      if (std::isinf(exact)) return worst.see(got == exact ? 0 : wrong, bound);
      const Real largest = is_narrow ? Real{A(std::numeric_limits<T>::max())} : most;
      if (std::fabs(exact) + allowed > largest / 2) return;
      if (is_narrow) {
        constexpr int digits = std::numeric_limits<T>::digits;
        allowed += std::max(std::ldexp(std::fabs(exact) + allowed, -digits),
                            std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1));
      }
      const Real off = std::fabs(got - exact);
      worst.see(off == 0 ? 0 : !std::isfinite(got) ? wrong : as_double(off / allowed), bound);
    }
    void see_exactly(std::uint64_t bits, Real exact, Worst &worst) const {
      const bool is_narrow = sizeof(T) == 2 && !wanted.wide_out;
      const Real got = is_narrow ? value_of<T>(bits) : value_of<A>(bits);
      const bool is_right =
          std::isnan(exact) ? std::isnan(got) : got == exact && !(got == 0 && std::signbit(got));
      worst.see(is_right ? 0 : wrong, bound);
    }

    // The finite elements must not overflow. A sum with NaN is NaN even then.
    bool is_safe() const { return has_nan || sizes < most / 2; }
    // The sum of infinities, or of elements without one.
    Real special_sum() const {
      constexpr Real nan = std::numeric_limits<Real>::quiet_NaN(),
                     infinity = std::numeric_limits<Real>::infinity();
      return has_nan || (has_plus && has_minus) ? nan : has_plus ? infinity : has_minus ? -infinity : sum_;
    }
    Real error_of_mean() const { return (d + 2) * u * sizes / count() + z / 2; }
    void see_mean(std::uint64_t bits, Worst &worst) const {
      if (n == 0) return see_number(bits, std::numeric_limits<Real>::quiet_NaN(), 0, worst);
      if (is_safe()) see_number(bits, special_sum() / count(), error_of_mean(), worst);
    }

    void see(std::uint64_t bits, Worst &worst) const {
      constexpr Real nan = std::numeric_limits<Real>::quiet_NaN(),
                     infinity = std::numeric_limits<Real>::infinity();
      switch (wanted.operation_of()) {
        case RAPT_SUM:
          if (is_safe()) see_number(bits, special_sum(), d * u * sizes, worst);
          return;
        case RAPT_MEAN:
          return see_mean(bits, worst);
        case RAPT_VARIANCE:
          return see_variance(bits, worst);
        case RAPT_NORM_1:
          if (!is_finite()) return see_number(bits, has_nan ? nan : infinity, 0, worst);
          if (is_safe()) see_number(bits, sizes, d * u * sizes, worst);
          return;
        case RAPT_NORM_2:
          return see_norm_2(bits, worst);
        case RAPT_PRODUCT:
          return see_product(bits, worst);
        default:
          return see_extreme(bits, worst);
      }
    }

    void see_variance(std::uint64_t bits, Worst &worst) const {
      const Real left = count() - static_cast<Real>(wanted.correction);
      if (n == 0 || !is_finite()) return see_number(bits, std::numeric_limits<Real>::quiet_NaN(), 0, worst);
      const Real mean = sum_ / count(), e = error_of_mean();
      Sum squares;
      for (const Real value : x) squares.add((value - mean) * (value - mean));
      // A quotient by 0 is infinite or NaN.
      if (left <= 0) return worst.see(std::isfinite(value_of_result(bits)) ? wrong : 0, bound);
      const Real v = squares.value() / left, grown = e * e * count() / left;
      if (!is_safe() || squares.value() >= most / 4) return;
      see_number(bits, v, (d + 6) * u * (v + grown) + grown + (count() + 1) * z / left, worst);
    }
    Real value_of_result(std::uint64_t bits) const {
      return sizeof(T) == 2 && !wanted.wide_out ? value_of<T>(bits) : value_of<A>(bits);
    }

    void see_norm_2(std::uint64_t bits, Worst &worst) const {
      constexpr Real nan = std::numeric_limits<Real>::quiet_NaN(),
                     infinity = std::numeric_limits<Real>::infinity();
      if (!is_finite()) return see_number(bits, has_nan ? nan : infinity, 0, worst);
      Sum squares;
      for (const Real value : x) squares.add(value * value);
      const Real norm = std::sqrt(squares.value());
      see_number(bits, norm, (d / 2 + 2) * u * norm + z / 2, worst);
    }

    void see_product(std::uint64_t bits, Worst &worst) const {
      bool has_zero = false;
      Real product = 1, small = 0,
           large = 0;  // the logarithms of the smallest and the largest partial product
      for (const Real value : x) {
        product *= value;
        has_zero = has_zero || value == 0;
        if (value == 0 || !std::isfinite(value)) continue;
        const Real power = std::log2(std::fabs(value));
        (power < 0 ? small : large) += power;
      }
      if (has_nan || (has_zero && (has_plus || has_minus)))
        return see_number(bits, std::numeric_limits<Real>::quiet_NaN(), 0, worst);
      constexpr Real least = std::numeric_limits<A>::min_exponent,
                     largest = std::numeric_limits<A>::max_exponent - 2;
      if (small < least || large > largest) return;
      see_number(bits, product, count() * u * std::fabs(product) / (1 - count() * u), worst);
    }

    void see_extreme(std::uint64_t bits, Worst &worst) const {
      const std::size_t operation = wanted.operation_of();
      const bool is_least = operation == RAPT_MIN || operation == RAPT_ARGMIN;
      std::size_t best = 0;
      Real largest_size = 0;
      for (std::size_t i = 0; i < n && !std::isnan(x[best]); ++i) {
        if (std::isnan(x[i]) || (is_least ? x[i] < x[best] : x[i] > x[best])) best = i;
        if (!(std::fabs(x[i]) <= largest_size)) largest_size = std::fabs(x[i]);
      }
      if (wanted.finds_index()) return worst.see(bits == best ? 0 : wrong, bound);
      see_exactly(bits, operation == RAPT_NORM_INF ? (has_nan ? x[best] : largest_size) : x[best], worst);
    }
  };
};

}  // namespace rapt::validate
