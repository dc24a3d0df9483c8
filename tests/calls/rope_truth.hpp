// Measures the accuracy of rope.
#pragma once

#include <cmath>

#include "calls/rope.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Measures every result's error relative to its bound in rapt.h. Results are measured if both elements of the
// pair are finite, and the result cannot overflow.
template <class T>
struct RopeAccuracy {
  using A = Number<T>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  struct Angle {
    Real sine, cosine, error;

    // The product is exact as the sum of two numbers. The C library reduces the larger exactly.
    Angle(double position, double frequency) {
      const double product = position * frequency;
      const Real rest = Real{std::fma(position, frequency, -product)};
      const Real s = std::sin(Real{product}), c = std::cos(Real{product});
      sine = s + c * rest;
      cosine = c - s * rest;
      error = Real{angle_bound} * std::fabs(Real{product});
    }
  };

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &shape = problem.as<RopeProblem>();
    const RopeValues<T> &made = make_rope_values<T>(problem);
    const std::size_t pairs = shape.turned() / 2, tokens = shape.rows;
    Worst worst;
    if (pairs == 0) return worst.judgement;
    for (std::size_t row = 0; row < shape.batch * shape.heads * tokens; ++row) {
      const std::size_t token = row % tokens, item = row / (tokens * shape.heads);
      const auto position = static_cast<double>(made.positions[item * tokens + token]);
      const T *const x = made.x.data() + row * shape.cols;
      const std::uint64_t *const y = bits.data() + row * shape.cols;
      for (std::size_t i = 0; i < pairs; ++i) {
        const std::size_t first = shape.in_pairs ? 2 * i : i, second = shape.in_pairs ? 2 * i + 1 : i + pairs;
        const Angle angle(position, made.frequencies[i]);
        see(shape, angle, A(x[first]), A(x[second]), y[first], y[second], worst);
      }
      for (std::size_t i = shape.turned(); i < shape.cols; ++i) {
        if (y[i] != canonical_bits(x[i])) worst.see(wrong, bound);
      }
    }
    return worst.judgement;
  }

  static void see(const RopeProblem &shape, const Angle &angle, A a, A b, std::uint64_t first,
                  std::uint64_t second, Worst &worst) {
    if (!std::isfinite(a) || !std::isfinite(b)) return;
    const Real factor = shape.scale == 0 ? 1 : Real{shape.scale}, magnitude = std::fabs(factor);
    const Real sine = (shape.backward ? -angle.sine : angle.sine) * factor, cosine = angle.cosine * factor;
    const Real sum = std::fabs(Real{a}) + std::fabs(Real{b}), radius = std::sqrt(Real{a} * a + Real{b} * b);
    const Real units = static_cast<Real>(turn_bound<A> * unit<A>);
    const Real error =
        magnitude * (units * radius + angle.error * sum) + static_cast<Real>(smallest<A>) * (sum + 2);
    // A rounding to 16 bits adds half a unit of the result, or of the smallest number.
    const auto see_one = [&](Real exact, std::uint64_t got_bits) {
      const Real most = std::fabs(exact) + error;
      if (magnitude * sum * 2 >= Real{A(std::numeric_limits<T>::max())}) return;
      constexpr int digits = std::numeric_limits<T>::digits;
      const Real least = std::ldexp(Real{1}, std::numeric_limits<T>::min_exponent - digits - 1);
      const Real rounding = std::is_same_v<T, A> ? 0 : std::max(std::ldexp(most, -digits), least);
      const Real got = value_of<T>(got_bits);
      worst.see(std::isfinite(got) ? as_double(std::fabs(got - exact) / (error + rounding)) : wrong, bound);
    };
    see_one(a * cosine - b * sine, first);
    see_one(a * sine + b * cosine, second);
  }
};

}  // namespace rapt::validate
