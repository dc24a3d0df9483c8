// Defines the numbers of softmax, log_softmax and logsumexp that every level must agree on.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"

namespace rapt {
namespace {

// Rows longer than this sum their exponentials in the pass that searches for the maximum. The exponentials of
// a section are relative to the largest score up to its end, and sums of earlier sections are scaled by a
// power of two. In a shorter row all exponentials are relative to the row's maximum. The two sums differ only
// in terms that are below the depth of one of them.
inline constexpr std::size_t one_pass_from = 131072;
inline constexpr std::size_t one_pass_section = 2048;

// Softmax's exponentials are 2^(n - N + sum_bias) * exp(r), where N is the row's maximum in units of ln 2,
// and 0 from `depth` below the maximum on. The bias keeps them normal: above 2^-93 in f32.
//
// A probability is fma(e, high, e * low) with high = 1 / sum rounded, and low its remainder: correctly
// rounded but for 2^-31 of a unit, and exactly 1 where e is the sum. A `low` below reciprocal_floor * high
// counts as 0. Both factors are multiplied by 2^quotient_bias, so that no product is subnormal. The result is
// divided by 2^quotient_bias in the end. A probability below the smallest normal number is 0.
template <class A>
struct SoftmaxContract;

template <>
struct SoftmaxContract<float> : ExpContract<float> {
  static constexpr int sum_bias = 40;
  static constexpr float depth = 91.0f;
  // If the maximum's magnitude is at least this, it is subtracted from the argument, which is then exact.
  static constexpr float subtract_from = 65536.0f;
  // Scales within [1/scale_limit, scale_limit] go into the constants of exp. Others multiply the scores
  // first.
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
