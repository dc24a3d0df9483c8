// Defines the error bounds that rapt.h promises, in units u of the arithmetic type: 2^-24 or 2^-53. All
// accuracy tests take their bounds from here.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "oracle/attention_backward.hpp"
#include "rapt/rapt.h"

namespace rapt::test {

// T is an element type or its arithmetic type.
template <class T>
inline constexpr bool in_f64 = std::is_same_v<T, double>;
template <class T>
inline constexpr double unit_of = in_f64<T> ? 0x1p-53 : 0x1p-24;

// ---- vectors ----

// Holds the smallest subnormal number. A fused multiply-add that underflows loses up to half of it.
template <class T>
inline constexpr double smallest = in_f64<T> ? 0x1p-1074 : 0x1p-149;

// Returns the bound relative to the sum of |a[i] * b[i]|, for any input. Underflow may add n * smallest<T>.
template <class T>
double dot_bound(std::size_t n) {
  constexpr double lanes = in_f64<T> ? 32 : 64, chain = 512;
  const double count = static_cast<double>(n);
  return std::min(count / lanes, chain) + count / (lanes * chain) + 8;
}
template <class T>
double squared_distance_bound(std::size_t n) {
  return dot_bound<T>(n) + 3;
}
template <class T>
double cosine_bound(std::size_t n) {
  return 2 * dot_bound<T>(n) + 6;
}
inline double mean_pool_bound(double tokens) { return tokens; }
template <class T>
double normalize_bound(std::size_t n) {
  return dot_bound<T>(n) / 2 + 4;
}
// Bounds the errors that were measured on random data with n <= 2^20.
template <class T>
inline constexpr double usual_dot_bound = (in_f64<T> ? 4e-15 : 1e-6) / unit_of<T>;

// Bounds the errors of exp and of the activations, in units in the last place. That of exp_f32 was measured over all
// inputs.
inline constexpr double exp_bound = 1, exp_f32_bound = 0.8914;
inline constexpr double silu_bound = 4, gelu_bound = 8;
inline constexpr double gelu_tanh_bound = 5;  // times 1 + |v| / 2, as the rounding of v counts |v| / 2 times
// The same of their gradients, in units u relative to |dy| * (s + |x s'|).
inline constexpr double silu_backward_bound = 5, gelu_backward_bound = 9;
inline constexpr double gelu_tanh_backward_bound = 6;  // times 1 + |v| / 2
// Bounds the error relative to the sum of the exponentials that were written.
template <class T>
inline constexpr double exp_sum_bound = in_f64<T> ? 6 : 3;

// ---- rows ----

// Bounds the relative error of a probability.
template <class T>
inline constexpr double softmax_bound = in_f64<T> ? 10 : 6;
// Bounds the error of a log-probability or log-sum-exp y, relative to max(1, |y|).
template <class T>
inline constexpr double log_bound = in_f64<T> ? 12 : 6;

// Bounds the rounding error that options add to a score. `s` is the score before the bias, `s_with_bias`
// after it.
template <class T>
double score_bound(double scale, double softcap, bool has_bias, double s, double s_with_bias) {
  const double magnitude = std::fabs(scale);
  if (softcap != 0) return (in_f64<T> ? 7 : 5) * std::fabs(s) + std::fabs(s_with_bias);
  const bool is_rounded = magnitude < 0x1p-16 || magnitude > 0x1p16;
  return (is_rounded ? 2 * std::fabs(s) : 0) +
         (has_bias ? std::fabs(s_with_bias - s) + std::fabs(s_with_bias) : 0);
}

// Returns the bound relative to |scale| * y * (|dy| + sum of y * |dy|), for any input.
template <class T>
double softmax_backward_worst_bound(std::size_t cols) {
  return dot_bound<T>(cols) + 3;
}
// Returns the error that underflow adds.
template <class T>
double softmax_backward_underflow(std::size_t cols, double scale, double y) {
  return (std::fabs(scale) * (static_cast<double>(cols) * y + 1) + 1) * smallest<T>;
}
// Bounds the errors that were measured on random data.
template <class T>
inline constexpr double softmax_backward_bound = usual_dot_bound<T>;

// ---- norms ----

// Returns g of rapt.h.
template <class T>
double layer_norm_shift(std::size_t cols) {
  return (dot_bound<T>(cols) + 5) * unit_of<T> * std::sqrt(static_cast<double>(cols));
}
// Returns f of rapt.h.
template <class T>
double layer_norm_growth(std::size_t cols) {
  const double growth = 1 + 2 * layer_norm_shift<T>(cols);
  return growth * growth;
}
// Return e of rapt.h, for a |t| of `size`. mean_size is the mean of |t|, and `root` is R.
template <class T, class Real>
Real rms_norm_error(std::size_t cols, Real size) {
  return static_cast<Real>((dot_bound<T>(cols) / 2 + 5) * unit_of<T>) * size + Real{smallest<T>};
}
template <class T, class Real>
Real layer_norm_error(std::size_t cols, Real size, Real mean_size, Real root) {
  const Real d = dot_bound<T>(cols), g = layer_norm_shift<T>(cols), f = layer_norm_growth<T>(cols);
  return ((d / 2 + 9) * f * size + (d + 9) * (mean_size + 4 * g)) * Real{unit_of<T>} +
         (1 + root) * Real{smallest<T>};
}

// ---- RoPE ----

// Bound the relative error of a sine or cosine, and the error of a turned pair relative to sqrt(a^2 + b^2).
template <class T>
inline constexpr double sine_bound = in_f64<T> ? 3.5 : 1.004;
template <class T>
inline constexpr double turn_bound = in_f64<T> ? 5.6 : 3.1;
// Bounds what the rounding of an angle adds, relative to it.
inline constexpr double angle_bound = 1.2e-16;

// ---- linear layers ----

// Return the bound of t, in units relative to the sum of |x[k] * w[k]|, and what underflow may add. A chain of
// fewer than 512 inputs errs by less than rapt.h says (contract/linear.hpp). In bf16 arithmetic, subnormal inputs
// count as 0 in both.
inline double linear_bound(std::size_t inputs, rapt_arithmetic arithmetic) {
  const double count = static_cast<double>(inputs);
  return arithmetic == RAPT_ARITHMETIC_BF16 ? 18 + count / 32 + 4 : std::min(count, 512.0) + count / 512 + 4;
}
template <class T>
double linear_underflow(std::size_t inputs, rapt_arithmetic arithmetic) {
  const double count = static_cast<double>(inputs);
  return arithmetic == RAPT_ARITHMETIC_BF16 ? (count + count / 32 + 64) * 0x1p-126 : count * smallest<T>;
}

// The same with quantized weights, whose sums have groups of `group` inputs. In i8 arithmetic, errors are
// relative to the sum over the rounded x. `largest` is the largest |scale| or |offset|.
inline double quantized_linear_bound(std::size_t inputs, std::size_t group, rapt_arithmetic arithmetic) {
  const double groups = std::ceil(static_cast<double>(inputs) / static_cast<double>(group));
  return arithmetic == RAPT_ARITHMETIC_I8 ? 2 * groups + 6
                                          : static_cast<double>(std::min(group, inputs)) + 2 * groups + 4;
}
inline double quantized_linear_underflow(std::size_t inputs, std::size_t group, double largest,
                                         rapt_arithmetic arithmetic) {
  const double groups = std::ceil(static_cast<double>(inputs) / static_cast<double>(group));
  const double count = static_cast<double>(arithmetic == RAPT_ARITHMETIC_I8 ? 0 : inputs) + 2 * groups;
  return count * (1 + largest) * smallest<float>;
}

// ---- attention ----

// Holds errors in units u. The error of out is also divided by the largest visible |v|.
struct AttentionErrors {
  double out = 0, lse = 0;
};

inline AttentionErrors operator+(const AttentionErrors &a, const AttentionErrors &b) {
  return {a.out + b.out, a.lse + b.lse};
}

// Bounds the errors that were measured on random data, for lse only without a sink. score_terms is S in
// rapt.h. In bf16 arithmetic, a weight has a relative error of 2^-8 + 2^-13. The log-sum-exp has the same
// error, and a weighted mean twice that.
inline AttentionErrors attention_bounds(std::size_t qk_dim, const oracle::AttentionTruth &truth,
                                        rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  const double of_scores = static_cast<double>(qk_dim + 8) * static_cast<double>(truth.score_terms);
  const double of_weights = arithmetic == RAPT_ARITHMETIC_BF16 ? 0x1p16 + 0x1p11 : 0;
  return {32 + of_scores + 2 * of_weights,
          16 + of_scores + std::fabs(static_cast<double>(truth.lse)) + of_weights};
}

// Bounds errors for any input. contract/attention.hpp has the proof.
inline AttentionErrors attention_worst_bounds(std::size_t qk_dim, std::size_t keys,
                                              const oracle::AttentionTruth &truth,
                                              rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  const AttentionErrors usual = attention_bounds(qk_dim, truth, arithmetic);
  const double count = static_cast<double>(keys);
  const double of_any = count / 64 + static_cast<double>(truth.score_terms);
  return {usual.out + std::min(count, 512.0) + 32 + of_any,
          usual.lse + 80 + std::fabs(static_cast<double>(truth.lse)) + of_any};
}

// Returns the errors that underflow adds: F and G of rapt.h. If all visible values are 0, G adds nothing.
template <class A, class T>
AttentionErrors attention_underflow(const oracle::Attention<T> &a, const oracle::AttentionTruth &truth,
                                    std::size_t b, std::size_t h, std::size_t i,
                                    rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  const bool in_bf16 = arithmetic == RAPT_ARITHMETIC_BF16, of_bytes = !a.v_scales.empty();
  const double of_dim = in_bf16 ? 0x1p-125 : smallest<A>;
  const double of_key = in_bf16 ? 0x1p-117 : of_bytes ? 0x1p-93 : smallest<A>;
  const auto scale = std::fabs(static_cast<double>(oracle::scale_of(a, b, h, i)));
  const double of_score = scale * (static_cast<double>(a.qk_dim) * of_dim);
  const double of_values = static_cast<double>(a.keys(b)) * of_key;
  const auto largest = static_cast<double>(truth.largest_value);
  return {(of_score + (largest == 0 ? 0 : of_values / largest)) / unit_of<A>, of_score / unit_of<A>};
}

// Returns what int8 keys and values add to the bounds. a.k and a.v must already be multiplied by the scales.
template <class T>
AttentionErrors attention_bytes_bounds(const oracle::Attention<T> &a, const oracle::AttentionTruth &truth,
                                       std::size_t b, std::size_t h, std::size_t i) {
  constexpr double unit = unit_of<float>;
  const std::size_t k_group = a.group_of(a.qk_dim), v_group = a.group_of(a.v_dim);
  const std::size_t v_groups = a.v_dim / v_group;
  double of_score = 0, v_scale = 0;
  for (std::size_t j = 0; j < a.keys(b); ++j) {
    if (!oracle::is_visible(a, b, h, i, j)) continue;
    const std::size_t row = a.kv_row(b, h, j);
    double sum = 0;
    for (std::size_t d = 0; d < a.qk_dim; d += k_group) {
      double largest = 0x1p-84, keys = 0;
      for (std::size_t e = d; e < d + k_group; ++e) {
        largest = std::max(largest, std::fabs(double{a.query(b, h, i)[e]}));
        keys += std::fabs(double{a.k[row * a.qk_dim + e]});
      }
      sum += largest * keys;
    }
    of_score = std::max(of_score, sum);
    for (std::size_t g = 0; g < v_groups; ++g) {
      v_scale = std::max(v_scale, std::fabs(double{a.v_scales[row * v_groups + g]}));
    }
  }
  const double score = std::fabs(static_cast<double>(oracle::scale_of(a, b, h, i))) * of_score / 65000;
  // AttentionErrors::out is relative to the largest visible value, which may be 0.
  const double values = truth.largest_value == 0 ? 0 : v_scale / 8 / static_cast<double>(truth.largest_value);
  return {(std::expm1(2 * score) + values) / unit, score / unit};
}

// ---- attention backwards ----

inline auto gradient_units(std::size_t qk_dim, std::size_t v_dim) {
  return [=](const oracle::RowTruth &row) {
    const long double of_weights =
        8 + std::fabs(row.lse) + static_cast<long double>(qk_dim + 8) * row.score_terms;
    return oracle::RowUnits{of_weights, of_weights + static_cast<long double>(v_dim)};
  };
}

// Returns the error bound of a gradient's element. A weight below `lowest` may have become 0.
template <class T>
long double gradient_bound(const oracle::Sum &sum) {
  const long double lowest = std::ldexp(1.0L, in_f64<T> ? -1021 : -125);
  const long double smallest = std::ldexp(1.0L, in_f64<T> ? -1074 : -149);
  const auto terms = static_cast<long double>(sum.terms);
  return static_cast<long double>(unit_of<T>) * (sum.units + terms * sum.magnitude) +
         lowest * sum.unweighted + smallest * sum.lost;
}

// Of expert_sum, in units of the sum of magnitudes: a rounding for each row, and one for what is added.
constexpr double expert_sum_bound(double top_k) { return top_k + 1; }

// Of a sum of n rows in a bag, in units of the sum of magnitudes: a product and an addition for each row.
constexpr double embedding_bag_bound(double n) { return n + 1; }

// Of cross entropy without the error of its log-sum-exp, in units of the loss.
constexpr double cross_entropy_bound(double classes) { return classes / 1024 + 32; }

// Of a normal random number, in units of its radius.
template <class T>
inline constexpr double random_normal_bound = in_f64<T> ? 9 : 6;

}  // namespace rapt::test
