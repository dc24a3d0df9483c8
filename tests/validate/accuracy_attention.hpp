// Measures the accuracy of attention and of its gradient.
#pragma once

#include <vector>

#include "support/attention_accuracy.hpp"
#include "support/attention_backward_accuracy.hpp"
#include "support/attention_backward_case.hpp"
#include "support/attention_data.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// Measures every query's error relative to its bound. Partial results are measured only after their merge.
template <class E, bool is_partial, rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32>
struct AttentionAccuracy {
  static constexpr bool of_bytes = has_scales<E>;
  using Out = QueryOf<E>;
  using T = Number<E>;
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const bool is_measured = is_moderate(problem.input) || problem.input == InputClass::signed_zeros ||
                             problem.input == InputClass::odd_rows ||
                             (problem.input == InputClass::minus_infinities && !of_bytes);
    if (is_partial || !is_measured) return {};
    oracle::Attention<T> a = make_attention<E>(problem);
    if (of_bytes) a = a.multiplied();
    Worst worst;
    std::vector<T> out(a.v_dim);
    std::size_t at = 0;
    const auto is_ordinary_sink = [&](std::size_t h) {
      return a.sinks.empty() || std::fabs(a.sinks[h]) < std::numeric_limits<T>::max() / 2 ||
             std::isinf(a.sinks[h]);
    };
    for (std::size_t i = 0; i < a.q_len; ++i) {
      for (std::size_t b = 0; b < a.batch; ++b) {
        for (std::size_t h = 0; h < a.q_heads; ++h, at += a.v_dim + 1) {
          if (i >= a.queries(b) || !is_ordinary_sink(h)) continue;
          const oracle::AttentionTruth truth = oracle::attention_truth(a, b, h, i);
          if (!truth.is_finite || truth.is_empty) continue;
          for (std::size_t d = 0; d < a.v_dim; ++d)
            out[d] = from_bits<Out>(static_cast<BitsOf<Out>>(bits[at + d]));
          const T lse = from_bits<T>(static_cast<BitsOf<T>>(bits[at + a.v_dim]));
          const AttentionErrors errors = attention_errors<Out>(truth, out, lse);
          const bool is_random = is_moderate(problem.input) && a.sinks.empty();
          AttentionErrors bounds = is_random ? attention_bounds(a.qk_dim, truth, arithmetic)
                                             : attention_worst_bounds(a.qk_dim, a.keys(b), truth, arithmetic);
          bounds = bounds + attention_underflow<T>(a, truth, b, h, i, arithmetic);
          if constexpr (of_bytes) bounds = bounds + attention_bytes_bounds(a, truth, b, h, i);
          worst.see(errors.out / bounds.out, bound);
          worst.see(errors.lse / bounds.lse, bound);
        }
      }
    }
    return worst.judgement;
  }
};
template <class T>
using AttentionWholeAccuracy = AttentionAccuracy<T, false>;
template <class T>
using AttentionInBf16Accuracy = AttentionAccuracy<T, false, RAPT_ARITHMETIC_BF16>;
template <class T>
using AttentionPartialAccuracy = AttentionAccuracy<T, true>;

// Measures the largest ratio of a gradient's error to its bound, if all gradients are finite.
template <class T>
struct AttentionBackwardAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    if (!is_moderate(problem.input) && problem.input != InputClass::minus_infinities) return {};
    const oracle::Attention<T> a = make_attention<T>(problem);
    for (const T sink : a.sinks) {
      if (std::fabs(sink) >= std::numeric_limits<T>::max() / 2) return {};
    }
    const oracle::GradientTruth truth =
        oracle::gradient_truth(a, make_output_gradient<T>(problem, a), gradient_units(a.qk_dim, a.v_dim));
    if (!truth.is_finite) return {};
    Worst worst;
    std::size_t at = 0;
    const auto see = [&](const std::vector<oracle::Sum> &sums) {
      const auto value = [&](std::size_t i) { return from_bits<T>(static_cast<BitsOf<T>>(bits[at + i])); };
      worst.see(gradient_error<T>(sums, value), bound);
      at += sums.size();
    };
    const WantedGradients wanted = wanted_gradients(problem, a);
    see(truth.dq);
    see(truth.dk);
    see(truth.dv);
    if (wanted.dbias) see(truth.dbias);
    if (wanted.dsinks) see(truth.dsinks);
    return worst.judgement;
  }
};

// Measures nothing. The oracle's gradient belongs to exact outputs, but the forward call rounds outputs to 16
// bits. The test oracle_attention checks that the bits are those of the gradient in f32, rounded once.
template <class E>
struct RoundedBackwardAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &, Bits) { return {}; }
};

}  // namespace rapt::validate
