// What rapt_scan should give: the exact numbers, the bounds of rapt.h, and its special values.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "calls/scan.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Measures every result's error relative to its bound. Where rapt.h says exactly what a result is, any other is wrong.
template <class T>
struct ScanAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = is_f64<A> ? 1 + 0x1p-8 : 1 + 0x1p-20;  // the judge's own error
  static constexpr Real u = unit<A>, most = std::numeric_limits<A>::max();

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<ReduceProblem>();
    const auto x = make_operands<T>(Family::reduce, problem).first;
    const std::size_t axis = axis_of(wanted);
    const auto sizes = wanted.sizes();
    std::size_t step = 1;
    for (std::size_t d = 3; d > axis; --d) step *= sizes[d];
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i / step % sizes[axis] != 0) continue;
      Line line;
      for (std::size_t j = 0; j < sizes[axis]; ++j) {
        const std::size_t at = i + j * step;
        line.take(A(x[at]));
        if (is_product(wanted)) {
          line.see_product(value_of<T>(bits[at]), worst);
        } else {
          line.see_sum(value_of<T>(bits[at]), worst);
        }
      }
    }
    return worst.judgement;
  }

 private:
  struct Line {
    std::size_t n = 0;
    bool has_nan = false, has_plus = false, has_minus = false, has_zero = false;
    Sum sum, magnitudes;
    // The logarithms of the smallest and the largest product of neighbours, or beyond.
    Real product = 1, small = 0, large = 0;

    void take(Real x) {
      ++n;
      has_nan = has_nan || std::isnan(x);
      has_plus = has_plus || (std::isinf(x) && x > 0);
      has_minus = has_minus || (std::isinf(x) && x < 0);
      has_zero = has_zero || x == 0;
      product *= x;
      if (!std::isfinite(x)) return;
      sum.add(x);
      magnitudes.add(std::fabs(x));
      if (x != 0) (std::fabs(x) < 1 ? small : large) += std::log2(std::fabs(x));
    }
    void see_sum(Real got, Worst &worst) const {
      if (has_nan || (has_plus && has_minus)) return worst.see(std::isnan(got) ? 0 : wrong, bound);
      const Real total = magnitudes.value();
      if (total >= most / 2) return;
      if (has_plus || has_minus)
        return worst.see(std::isinf(got) && (got > 0) == has_plus ? 0 : wrong, bound);
      const Real d = static_cast<Real>(scan_bound(n - 1)) * u;
      see(got, sum.value(), d * total / (1 - d), worst);
    }
    void see_product(Real got, Worst &worst) const {
      const bool is_infinite = has_plus || has_minus;
      if (has_nan || (has_zero && is_infinite)) return worst.see(std::isnan(got) ? 0 : wrong, bound);
      // A product of neighbours may overflow next to a zero, and be zero next to an infinity.
      if (small < std::numeric_limits<A>::min_exponent || large > std::numeric_limits<A>::max_exponent - 2)
        return;
      if (is_infinite) return worst.see(got == product ? 0 : wrong, bound);
      const Real d = static_cast<Real>(n - 1) * u;
      see(got, product, d * std::fabs(product) / (1 - d), worst);
    }
    void see(Real got, Real exact, Real allowed, Worst &worst) const {
      if constexpr (sizeof(T) == 2) {
        constexpr int digits = std::numeric_limits<T>::digits;
        if (std::fabs(exact) + allowed > Real{A(std::numeric_limits<T>::max())} / 2) return;
        allowed += std::max(std::ldexp(std::fabs(exact) + allowed, -digits),
                            std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1));
      }
      const Real off = std::fabs(got - exact);
      worst.see(off == 0 ? 0 : !std::isfinite(got) ? wrong : as_double(off / allowed), bound);
    }
  };
};

}  // namespace rapt::validate
