// What linear layers should give: the bits of the loops that rapt.h spells out, and how near they are to what is exact.
#pragma once

#include "calls/linear_values.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Measures every result's error relative to its bound. Results are measured if no number is infinite or NaN,
// and no step comes near an overflow.
template <class W, rapt_arithmetic arithmetic>
struct LinearAccuracyIn {
  using A = Number<W>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;
  static constexpr bool in_bf16 = arithmetic == RAPT_ARITHMETIC_BF16;

  // Holds what is exact, and the most by which the library's number may differ.
  struct Estimate {
    Real exact = 0, error = 0;

    Real most() const { return std::fabs(exact) + error; }
    void round() { error += static_cast<Real>(unit<A>) * most() + static_cast<Real>(smallest<A>); }
    template <class Y>
    void round_to() {
      constexpr int digits = std::numeric_limits<Y>::digits;
      const Real least = std::ldexp(Real{1}, std::numeric_limits<Y>::min_exponent - digits);
      if (!std::is_same_v<Y, A>) error += std::ldexp(most(), -digits) + least;
    }
  };

  // bf16 arithmetic takes subnormal inputs for 0.
  static Real input(A value) {
    const bool is_flushed = in_bf16 && std::fabs(value) < std::numeric_limits<A>::min();
    return is_flushed ? Real{0} : Real{value};
  }
  // Returns an error of infinity if a number is not finite.
  static Estimate sum(std::span<const A> x, std::span<const A> w) {
    Sum exact, magnitude;
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k]) || !std::isfinite(w[k])) return {0, std::numeric_limits<Real>::infinity()};
      const Real product = input(x[k]) * input(w[k]);
      exact.add(product);
      magnitude.add(std::fabs(product));
    }
    const Real units = static_cast<Real>(linear_bound(x.size(), arithmetic) * unit<A>);
    const Real error =
        units * magnitude.value() + static_cast<Real>(linear_underflow<A>(x.size(), arithmetic));
    const Real most_partial = magnitude.value() + error;
    if (most_partial >= Real{std::numeric_limits<A>::max()})
      return {0, std::numeric_limits<Real>::infinity()};
    return {exact.value(), error};
  }

  // The sum of rapt.h: chains over 512 inputs, or over the even and the odd of 32. Sets `is_flushed` where the
  // arithmetic of bf16 may take a number for 0.
  static A loop(std::span<const A> x, std::span<const A> w, bool &is_flushed) {
    const std::size_t group = in_bf16 ? 32 : 512;
    const auto note = [&](A number) {
      is_flushed = is_flushed || (in_bf16 && number != 0 && std::fabs(number) < A(0x1p-120));
    };
    A t = 0;
    for (std::size_t first = 0; first < x.size(); first += group) {
      A chains[2] = {0, 0};
      for (std::size_t k = first; k < x.size() && k < first + group; ++k) {
        A &chain = chains[in_bf16 ? k % 2 : 0];
        chain = std::fma(x[k], w[k], chain);
        note(x[k]), note(w[k]), note(x[k] * w[k]), note(chain);
      }
      t = t + (chains[0] + chains[1]);
      note(t);
    }
    return t + A(0);
  }
  template <class Y>
  static bool has_bits_of_loop(std::span<const A> x, std::span<const A> w, const A *factor, const A *bias,
                               const A *scale, const A *add, std::uint64_t bits) {
    bool is_flushed = false;
    A t = loop(x, w, is_flushed);
    if (factor) t = t * *factor;
    if (bias) t = t + *bias;
    if (scale) t = t * *scale;
    if (add) t = t + *add;
    return is_flushed || bits == canonical_bits(Y(t));
  }

  template <class Y>
  static void see(Estimate t, const A *factor, const A *bias, const A *scale, const A *add,
                  std::uint64_t bits, Worst &worst) {
    const auto fits = [&](Real largest) { return t.most() < largest; };
    const auto largest = Real{std::numeric_limits<A>::max()};
    for (const A *const number : {factor, bias, scale, add}) {
      if (number && !std::isfinite(*number)) return;
    }
    bool are_finite = fits(largest);
    const auto step = [&](const A *number, auto apply) {
      if (!number) return;
      apply(Real{*number});
      t.round();
      are_finite = are_finite && fits(largest);
    };
    const auto multiply = [&](Real number) {
      t.exact *= number;
      t.error *= std::fabs(number);
    };
    step(factor, multiply);
    step(bias, [&](Real number) { t.exact += number; });
    step(scale, multiply);
    step(add, [&](Real number) { t.exact += number; });
    t.template round_to<Y>();
    if (!are_finite || !fits(Real{Y(std::numeric_limits<Y>::max())})) return;
    const Real got = value_of<Y>(bits);
    const bool is_plain = std::is_same_v<Y, A> && !factor && !bias && !scale && !add;
    if (!std::isfinite(got) || (is_plain && got == 0 && std::signbit(got))) return worst.see(wrong, bound);
    worst.see(as_double(std::fabs(got - t.exact) / t.error), bound);
  }

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &shape = problem.as<LinearProblem>();
    const LinearNumbers<A> &made = make_linear<W>(problem);
    Worst worst;
    with_linear_types<W>(shape.types, [&]<class X, class Y>(LinearTypes<X, Y>) {
      for (std::size_t i = 0; i < shape.rows * shape.outputs; ++i) {
        const std::size_t r = i / shape.outputs, n = i % shape.outputs;
        const std::span<const A> x = std::span(made.x).subspan(r * shape.cols, shape.cols),
                                 w = std::span(made.w).subspan(n * shape.cols, shape.cols);
        const A *const factor = made.output_scales.empty() ? nullptr : &made.output_scales[n],
                       *const bias = made.bias.empty() ? nullptr : &made.bias[n],
                       *const scale = made.row_scales.empty() ? nullptr : &made.row_scales[r],
                       *const add = made.add.empty() ? nullptr : &made.add[i];
        if (!has_bits_of_loop<Y>(x, w, factor, bias, scale, add, bits[i])) worst.see(wrong, bound);
        const Estimate t = sum(x, w);
        if (std::isfinite(t.error)) see<Y>(t, factor, bias, scale, add, bits[i], worst);
      }
    });
    return worst.judgement;
  }
};
template <class W>
using LinearAccuracy = LinearAccuracyIn<W, RAPT_ARITHMETIC_F32>;
template <class W>
using LinearInBf16Accuracy = LinearAccuracyIn<W, RAPT_ARITHMETIC_BF16>;

}  // namespace rapt::validate
