// Computes the gradient of attention as rapt.h defines it, by the chain rule over whole rows of weights, in
// long double. It shares no code with the library; both follow the text of rapt.h.
#pragma once

#include "oracle/attention.hpp"

namespace rapt::test::oracle {

// Holds a sum, and the magnitudes that its error bound needs.
struct Sum {
  long double value = 0;
  long double magnitude = 0;   // the sum of the bounds of |term|
  long double units = 0;       // like magnitude, but each term is multiplied by its row's relative error
  long double unweighted = 0;  // like magnitude, but with all weights replaced by 1
  long double lost = 0;        // what underflow may lose, in multiples of the smallest number
  std::size_t terms = 0;
  bool is_known = true;  // false if a term is not finite
  bool is_nan = false;   // true if the sum must be NaN
  // `size` bounds the term without its weight.
  void add(long double term, long double weight, long double size, long double row_units,
           long double lost_of_term) {
    size = std::fabs(size);
    value += term;
    magnitude += weight * size;
    units += weight * size * row_units;
    unweighted += size;
    lost += lost_of_term;
    terms += 1;
  }
};

struct GradientTruth {
  bool is_finite = true;  // false if some sums are not known
  std::vector<Sum> dq, dk, dv, dbias, dsinks;
  void forget(std::vector<Sum> &sums, std::size_t first, std::size_t count = 1) {
    is_finite = false;
    for (std::size_t i = first; i < first + count; ++i) sums[i].is_known = false;
  }
};

// Holds the magnitudes of a row that its error bounds depend on.
struct RowTruth {
  long double score_terms, lse;
};

// Holds the relative errors that the weights of a row and the gradients of its scores may have.
struct RowUnits {
  long double weights, scores;
};

// Adds the terms of query i to the gradients. A term that is not finite makes the gradients of the query, and
// of the keys that it sees, unknown.
template <class T, class Units>
void add_row_gradients(const Attention<T> &a, const std::vector<T> &dout, std::size_t b, std::size_t h,
                       std::size_t i, Units &&units, GradientTruth &truth, const std::vector<T> *out,
                       const std::vector<T> *given_lse) {
  using Real = long double;
  const AttentionTruth row = attention_truth(a, b, h, i);
  const T *go = dout.data() + a.row({}, b, h, i) * a.v_dim;
  const std::size_t q_at = a.row({}, b, h, i) * a.qk_dim;
  const Real factor = scale_of(a, b, h, i);
  const bool dout_is_finite = std::all_of(go, go + a.v_dim, [](T x) { return std::isfinite(x); });
  if (!a.sinks.empty() && !(dout_is_finite && row.is_finite)) truth.forget(truth.dsinks, h);
  if (row.is_empty && std::isfinite(factor)) {
    // The output is 0, and the sink has weight 1. The sink's gradient is 0 times a dout that is not finite.
    if (!a.sinks.empty() && std::isfinite(a.sinks[h]) && !dout_is_finite) truth.dsinks[h].is_nan = true;
    return;
  }
  const bool is_known = row.is_finite && std::isfinite(factor);
  if (!is_known || !dout_is_finite) {
    truth.forget(truth.dq, q_at, a.qk_dim);
    for (std::size_t j = 0; j < a.keys(b); ++j) {
      if (!is_visible(a, b, h, i, j)) continue;
      truth.forget(truth.dk, a.kv_row(b, h, j) * a.qk_dim, a.qk_dim);
      if (!a.bias.empty()) truth.forget(truth.dbias, a.row(a.bias_repeats, b, h, i) * a.kv_len + j);
      for (std::size_t d = 0; d < a.v_dim; ++d) {
        if (!is_known || !std::isfinite(go[d])) truth.forget(truth.dv, a.kv_row(b, h, j) * a.v_dim + d);
      }
    }
    if (!is_known) return;
  }
  const Real lse = given_lse ? Real{(*given_lse)[a.row({}, b, h, i)]} : row.lse;
  const auto weight_of = [&](Real score) { return std::min(Real{1}, std::exp(score - lse)); };
  const RowUnits e = units(RowTruth{row.score_terms, lse});
  const T *query = a.query(b, h, i);
  const Real lost_of_ds = static_cast<Real>(a.v_dim + 1), lost_of_g = lost_of_ds * std::fabs(factor) + 1;
  // `size` bounds the dot product of dout with any value. `mean` is the dot product of dout with out.
  Real size = 0, mean = 0;
  for (std::size_t d = 0; d < a.v_dim; ++d) {
    size += std::fabs(Real{go[d]}) * row.largest_value;
    mean += Real{go[d]} * (out ? Real{(*out)[a.row({}, b, h, i) * a.v_dim + d]} : row.out[d]);
  }
  for (std::size_t j = 0; j < a.keys(b); ++j) {
    if (!is_visible(a, b, h, i, j)) continue;
    const ScoreTruth score = score_truth(a, b, h, i, j);
    if (score.value == -std::numeric_limits<Real>::infinity()) continue;
    const std::size_t k_at = a.kv_row(b, h, j) * a.qk_dim, v_at = a.kv_row(b, h, j) * a.v_dim;
    // The softcap makes the score finite, but its gradient is 0 times infinity.
    if (a.softcap != 0 && std::isinf(score.dot)) {
      truth.forget(truth.dq, q_at, a.qk_dim);
      truth.forget(truth.dk, k_at, a.qk_dim);
    }
    Real dp = 0;
    for (std::size_t d = 0; d < a.v_dim; ++d) dp += Real{go[d]} * Real{a.v[v_at + d]};
    const Real w = weight_of(score.value), ds = w * (dp - mean);
    if (!a.bias.empty())
      truth.dbias[a.row(a.bias_repeats, b, h, i) * a.kv_len + j].add(ds, w, size, e.scores, lost_of_ds);
    for (std::size_t d = 0; d < a.v_dim; ++d)
      truth.dv[v_at + d].add(w * Real{go[d]}, w, Real{go[d]}, e.weights, 1);
    const Real g = ds * score.slope * factor, g_size = size * factor;
    const auto add = [&](Sum &sum, Real element) {
      sum.add(g * element, w, g_size * element, e.scores, lost_of_g * std::fabs(element) + 1);
    };
    for (std::size_t d = 0; d < a.qk_dim; ++d) {
      add(truth.dq[q_at + d], Real{a.k[k_at + d]});
      add(truth.dk[k_at + d], Real{query[d]});
    }
  }
  if (!a.sinks.empty()) {
    const Real w = weight_of(Real{a.sinks[h]});
    truth.dsinks[h].add(-w * mean, w, size, e.scores, lost_of_ds);
  }
}

// units(RowTruth) returns RowUnits. `out` and `lse` are the inputs of the backward call. They may differ from
// the exact ones: out may be rounded to 16 bits, and lse may include more keys.
template <class T, class Units>
GradientTruth gradient_truth(const Attention<T> &a, const std::vector<T> &dout, Units &&units,
                             const std::vector<T> *out = nullptr, const std::vector<T> *lse = nullptr) {
  GradientTruth truth;
  truth.dq.resize(a.q.size());
  truth.dk.resize(a.k.size());
  truth.dv.resize(a.v.size());
  truth.dbias.resize(a.bias.size());
  truth.dsinks.resize(a.q_heads);
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t h = 0; h < a.q_heads; ++h) {
      for (std::size_t i = 0; i < a.queries(b); ++i)
        add_row_gradients(a, dout, b, h, i, units, truth, out, lse);
    }
  }
  return truth;
}

}  // namespace rapt::test::oracle
