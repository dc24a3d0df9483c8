// The numbers of softmax, log_softmax and logsumexp that every level must agree on.
#pragma once

#include <cstddef>

#include "contract/exp.hpp"

namespace rapt {
namespace {

// Longer rows sum their exponentials in the pass that searches for the maximum. The exponentials of a
// section are relative to the largest score up to its end; earlier sections are scaled by a power of two.
// In a shorter row all are relative to the row's maximum. The two sums differ only in terms below one's
// depth.
inline constexpr std::size_t one_pass_from = 131072;

// Softmax's exponentials are 2^(n - N + sum_bias) * exp(r), where N is the row's maximum in units of ln 2.
//
// The bias keeps all of them among the normal numbers, with all that a division by their sum needs. At
// `depth` below the maximum an exponential is still above 2^-93 in f32; the quotient of anything so small is
// flushed.
template <class A>
struct SoftmaxContract;

template <>
struct SoftmaxContract<float> : ExpContract<float> {
  static constexpr int sum_bias = 40;
  static constexpr float depth = 91.0f;
  // From this magnitude on, the maximum is subtracted from the argument instead, which is then exact.
  static constexpr float subtract_from = 65536.0f;
  // Scales within [1/scale_limit, scale_limit] go into the constants of exp; others multiply the scores
  // first.
  static constexpr double scale_limit = 65536.0;
  static constexpr float smallest_normal = 0x1p-126f;
};

template <>
struct SoftmaxContract<double> : ExpContract<double> {
  static constexpr int sum_bias = 80;
  static constexpr double depth = 715.0;
  static constexpr double subtract_from = 65536.0;
  static constexpr double scale_limit = 65536.0;
  static constexpr double smallest_normal = 0x1p-1022;
};

}  // namespace
}  // namespace rapt
