// Defines the numbers of softmax, log_softmax and logsumexp that every level must agree on.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"

namespace rapt {
namespace {

// In rows of more than one_pass_from columns, one pass finds the maximum and sums the exponentials. The
// exponentials of a section of one_pass_section columns are relative to the largest score up to the section's
// end. The sums of earlier sections are scaled by a power of two. In a shorter row, all exponentials are
// relative to the row's maximum. The two methods differ only in terms that one of them counts as 0, because
// they are more than `depth` below its maximum.
inline constexpr std::size_t one_pass_from = 131072;
inline constexpr std::size_t one_pass_section = 2048;

// Softmax's exponentials are 2^(n - N + sum_bias) * exp(r), where N is the row's maximum in units of ln 2,
// rounded to an integer. Exponentials of arguments that are at least `depth` below the maximum are 0.
// sum_bias keeps all others normal: above 2^-93 in f32.
//
// A row's log-sum-exp is c * max plus the logarithm of the sum relative to exp(c * max). This logarithm is 0 if
// the sum is the maximum's exponential. It is sink - c * max if the sum is a sink's, and max is sink / c, rounded.
//
// A probability is fma(e, high, e * low), where high is 1 / sum rounded, and low is the remainder 1 / sum -
// high. It is correctly rounded except for an error of 2^-31 of a unit, and it is exactly 1 if e is the sum.
// A `low` below reciprocal_floor * high counts as 0. Both factors are multiplied by 2^quotient_bias, so that
// no product is subnormal, and the result is divided by 2^quotient_bias. A probability below the smallest
// normal number is 0.
template <class A>
struct SoftmaxContract;

template <>
struct SoftmaxContract<float> : ExpContract<float> {
  static constexpr int sum_bias = 40;
  static constexpr float depth = 91.0f;
  // If the maximum's magnitude is at least this, the maximum is subtracted from the argument first. For
  // arguments that are less than `depth` below the maximum, this difference is exact.
  static constexpr float subtract_from = 65536.0f;
  // Scales within [1/scale_limit, scale_limit] are multiplied into the constants of exp. Other scales
  // multiply the scores first.
  static constexpr double scale_limit = 65536.0;
  static constexpr float reciprocal_floor = 0x1p-32f;
  static constexpr int quotient_bias = 80;
  static constexpr float smallest_quotient = 0x1p-46f;  // 2^quotient_bias times the smallest normal number
};

template <>
struct SoftmaxContract<double> : ExpContract<double> {
  static constexpr int sum_bias = 80;
  static constexpr double depth = 715.0;
  static constexpr double subtract_from = 65536.0;
  static constexpr double scale_limit = 65536.0;
  static constexpr double reciprocal_floor = 0x1p-61;
  static constexpr int quotient_bias = 160;
  static constexpr double smallest_quotient = 0x1p-862;
};

}  // namespace
}  // namespace rapt
