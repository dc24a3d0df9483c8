// The accuracy that rapt.h promises of attention.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "oracle/attention.hpp"
#include "rapt/rapt.h"
#include "support/elements.hpp"

namespace rapt::test {

// In units: half the distance from 1 to the next number of the type; for out, times the largest visible |v|.
struct AttentionErrors {
  double out = 0, lse = 0;
};

// `out` holds numbers of E.
template <class E>
AttentionErrors attention_errors(const oracle::AttentionTruth &truth, std::span<const Number<E>> out,
                                 Number<E> lse) {
  using T = Number<E>;
  constexpr long double unit = std::numeric_limits<T>::epsilon() / 2;
  constexpr double wrong = std::numeric_limits<double>::infinity();
  AttentionErrors errors;
  for (std::size_t d = 0; d < out.size(); ++d) {
    const long double off = distance<E>(static_cast<long double>(out[d]), truth.out[d]);
    const double error = off == 0 ? 0 : static_cast<double>(off / (unit * truth.largest_value));
    if (!(error <= errors.out)) errors.out = std::isnan(error) ? wrong : error;
  }
  const long double off = std::fabs(static_cast<long double>(lse) - truth.lse);
  errors.lse = std::isfinite(lse) ? static_cast<double>(off / unit) : wrong;
  return errors;
}

// For terms that are not made to lose. score_terms is rapt.h's S.
// In bf16 arithmetic a weight is off by 2^-8 + 2^-13 of it, the log-sum-exp by as much, and a weighted mean
// by twice as much.
inline AttentionErrors attention_bounds(std::size_t qk_dim, const oracle::AttentionTruth &truth,
                                        rapt_arithmetic arithmetic = RAPT_ARITHMETIC_F32) {
  const double of_scores = static_cast<double>(qk_dim + 8) * static_cast<double>(truth.score_terms);
  const double of_weights = arithmetic == RAPT_ARITHMETIC_BF16 ? 0x1p16 + 0x1p11 : 0;
  return {32 + of_scores + 2 * of_weights,
          16 + of_scores + std::fabs(static_cast<double>(truth.lse)) + of_weights};
}
// For any terms: a chunk adds its 512 values one after the other, and costs two roundings more.
inline AttentionErrors attention_worst_bounds(std::size_t qk_dim, std::size_t keys,
                                              const oracle::AttentionTruth &truth) {
  const AttentionErrors usual = attention_bounds(qk_dim, truth);
  const double of_chunks = static_cast<double>(keys) / 256;
  return {usual.out + 512 + of_chunks, usual.lse + of_chunks};
}

}  // namespace rapt::test
