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

inline AttentionErrors operator+(const AttentionErrors &a, const AttentionErrors &b) {
  return {a.out + b.out, a.lse + b.lse};
}

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
// What keys and values of bytes add. `a` is multiplied by the scales.
inline AttentionErrors attention_bytes_bounds(const oracle::Attention<float> &a,
                                              const oracle::AttentionTruth &truth, std::size_t b,
                                              std::size_t h, std::size_t i) {
  constexpr double unit = std::numeric_limits<float>::epsilon() / 2;
  const std::size_t k_group = a.group_of(a.qk_dim), v_group = a.group_of(a.v_dim);
  const std::size_t v_groups = a.v_dim / v_group;
  double of_score = 0, v_scale = 0;
  for (std::size_t j = 0; j < a.keys(b); ++j) {
    if (!oracle::is_visible(a, b, h, i, j)) continue;
    const std::size_t row = a.kv_row(b, h, j);
    double sum = 0;
    for (std::size_t d = 0; d < a.qk_dim; d += k_group) {
      double largest = 0, keys = 0;
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
  // A value counts in units of the largest, which may be 0.
  const double values = truth.largest_value == 0 ? 0 : v_scale / 8 / static_cast<double>(truth.largest_value);
  return {(std::expm1(2 * score) + values) / unit, score / unit};
}

// For any terms: a chunk adds its 512 values one after the other, and costs two roundings more.
inline AttentionErrors attention_worst_bounds(std::size_t qk_dim, std::size_t keys,
                                              const oracle::AttentionTruth &truth) {
  const AttentionErrors usual = attention_bounds(qk_dim, truth);
  const double of_chunks = static_cast<double>(keys) / 256;
  return {usual.out + 512 + of_chunks, usual.lse + of_chunks};
}

}  // namespace rapt::test
