// Measures the accuracy of linear layers with quantized weights. Every result must also have the bits of the
// oracle, which follows the text of rapt.h.
#pragma once

#include "calls/linear_truth.hpp"
#include "calls/quantized_values.hpp"
#include "oracle/quantized_linear.hpp"

namespace rapt::validate {

template <rapt_arithmetic arithmetic>
struct QuantizedLinearAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;
  using Layer = LinearAccuracyIn<float, RAPT_ARITHMETIC_F32>;
  using Estimate = Layer::Estimate;

  // Holds a row as numbers, and as what the sum multiplies.
  struct Row {
    std::vector<float> x;
    oracle::RowOfIntegers integers;

    bool is_in_i8() const { return arithmetic == RAPT_ARITHMETIC_I8; }
    Real number(std::size_t k, std::size_t x_group) const {
      return is_in_i8() ? Real(integers.q[k]) * Real{integers.scales[k / x_group]} : Real{x[k]};
    }
  };

  static Estimate sum(const Row &row, const QuantizedNumbers &numbers, const oracle::QuantizedOutput &w) {
    Sum exact, magnitude, unscaled;  // a group's sum may overflow before it is scaled
    double largest = 0;
    for (std::size_t k = 0; k < w.q.size(); ++k) {
      const Real scale = w.scale(k), offset = w.offsets.empty() ? 0.0f : w.offsets[w.group_of(k)];
      const Real x = row.number(k, numbers.x_group), scaled = scale * Real{w.number(k)};
      if (!std::isfinite(x) || !std::isfinite(scaled) || !std::isfinite(offset))
        return {0, std::numeric_limits<Real>::infinity()};
      exact.add(x * scaled);
      exact.add(x * offset);
      unscaled.add(std::fabs(x * Real{w.number(k)}) + std::fabs(x));
      magnitude.add(std::fabs(x * scaled) + std::fabs(x * offset));
      largest = std::max({largest, as_double(std::fabs(scale)), as_double(std::fabs(offset))});
    }
    const std::size_t inputs = w.q.size();
    const Real error = static_cast<Real>(quantized_linear_bound(inputs, w.fold(), arithmetic) * unit<float>) *
                           magnitude.value() +
                       static_cast<Real>(quantized_linear_underflow(inputs, w.fold(), largest, arithmetic));
    const Real most = Real{std::numeric_limits<float>::max()};
    const bool fits = magnitude.value() + error < most && 2 * unscaled.value() < most && largest < 0x1p60;
    return {exact.value(), fits ? error : std::numeric_limits<Real>::infinity()};
  }

  // Returns the bits that the oracle computes.
  template <class Y>
  static std::uint64_t bits_of(const Row &row, const QuantizedNumbers &numbers,
                               const oracle::QuantizedOutput &w, std::size_t r, std::size_t n,
                               std::size_t outputs) {
    float y =
        row.is_in_i8() ? oracle::sum_in_i8(row.integers, numbers.x_group, w) : oracle::sum_in_f32(row.x, w);
    if (!numbers.output_scales.empty()) y = y * numbers.output_scales[n];
    if (!numbers.bias.empty()) y = y + numbers.bias[n];
    if (!numbers.row_scales.empty()) y = y * numbers.row_scales[r];
    if (!numbers.add.empty()) y = y + numbers.add[r * outputs + n];
    return canonical_bits(static_cast<Y>(y));
  }

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &shape = problem.as<QuantizedProblem>();
    const QuantizedNumbers &made = make_quantized(problem);
    Worst worst;
    with_quantized_types(shape.types, [&]<class X, class Y, class Scale>(TypesOfQuantized<X, Y, Scale>) {
      for (std::size_t r = 0; r < shape.rows; ++r) {
        Row row;
        if (!made.x.empty())
          row.x.assign(made.x.begin() + static_cast<std::ptrdiff_t>(r * shape.cols),
                       made.x.begin() + static_cast<std::ptrdiff_t>((r + 1) * shape.cols));
        if (row.is_in_i8()) row.integers = made.row(shape, r);
        for (std::size_t n = 0; n < shape.outputs; ++n) {
          const std::size_t i = r * shape.outputs + n;
          const oracle::QuantizedOutput w = made.output(shape, n);
          if (bits[i] != bits_of<Y>(row, made, w, r, n, shape.outputs)) {
            worst.see(wrong, bound);
            continue;
          }
          const Estimate t = sum(row, made, w);
          if (!std::isfinite(t.error)) continue;
          Layer::see<Y>(t, made.output_scales.empty() ? nullptr : &made.output_scales[n],
                        made.bias.empty() ? nullptr : &made.bias[n],
                        made.row_scales.empty() ? nullptr : &made.row_scales[r],
                        made.add.empty() ? nullptr : &made.add[i], bits[i], worst);
        }
      }
    });
    return worst.judgement;
  }
};

template <class>
using QuantizedInF32Accuracy = QuantizedLinearAccuracy<RAPT_ARITHMETIC_F32>;
template <class>
using QuantizedInI8Accuracy = QuantizedLinearAccuracy<RAPT_ARITHMETIC_I8>;

}  // namespace rapt::validate
