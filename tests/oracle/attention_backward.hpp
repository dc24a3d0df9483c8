// The gradient of attention as rapt.h defines it, by the chain rule over whole rows of weights in long
// double. It shares nothing with the library but the text that it follows.
#pragma once

#include "oracle/attention.hpp"

namespace rapt::test::oracle {

// A sum, and what an error in it is measured by.
struct Sum {
  long double value = 0;
  long double magnitude = 0;   // of the terms
  long double units = 0;       // the same, each times its row's units
  long double unweighted = 0;  // the same, with every weight 1
  std::size_t terms = 0;
  // `size`: the largest that the term can be, but for its weight.
  void add(long double term, long double weight, long double size, long double row_units) {
    size = std::fabs(size);
    value += term;
    magnitude += weight * size;
    units += weight * size * row_units;
    unweighted += size;
    terms += 1;
  }
};

struct GradientTruth {
  bool is_finite = true;  // else rapt.h promises NaN here and there, and nothing is told
  std::vector<Sum> dq, dk, dv, dbias, dsinks;
};

// What is told of a row, for its units.
struct RowTruth {
  long double score_terms, lse;
};

// The relative errors that are allowed for: of a row's weights, and of the gradients of its scores.
struct RowUnits {
  long double weights, scores;
};

// `units(RowTruth)` gives RowUnits.
template <class T, class Units>
GradientTruth gradient_truth(const Attention<T> &a, const std::vector<T> &dout, Units &&units) {
  using Real = long double;
  GradientTruth truth;
  truth.dq.resize(a.q.size());
  truth.dk.resize(a.k.size());
  truth.dv.resize(a.v.size());
  truth.dbias.resize(a.bias.size());
  truth.dsinks.resize(a.q_heads);
  for (std::size_t b = 0; b < a.batch; ++b) {
    for (std::size_t h = 0; h < a.q_heads; ++h) {
      for (std::size_t i = 0; i < a.queries(b); ++i) {
        const AttentionTruth row = attention_truth(a, b, h, i);
        const T *go = dout.data() + a.row({}, b, h, i) * a.v_dim;
        bool finite = row.is_finite;
        for (std::size_t d = 0; d < a.v_dim; ++d) finite = finite && std::isfinite(go[d]);
        if (!finite) {
          truth.is_finite = false;
          return truth;
        }
        if (row.is_empty) continue;
        Real factor = a.scale == 0 ? 1 / std::sqrt(static_cast<Real>(a.qk_dim)) : static_cast<Real>(a.scale);
        if (!a.query_scales.empty()) factor *= Real{a.query_scales[a.row({}, b, h, i)]};
        const Real cap = static_cast<Real>(a.softcap);
        const RowUnits e = units(RowTruth{row.score_terms, row.lse});
        const T *query = a.query(b, h, i);
        const std::size_t q_at = a.row({}, b, h, i) * a.qk_dim;
        // The largest that a product of a value with dout can be; and dout . out.
        Real size = 0, mean = 0;
        for (std::size_t d = 0; d < a.v_dim; ++d) {
          size += std::fabs(Real{go[d]}) * row.largest_value;
          mean += Real{go[d]} * row.out[d];
        }
        for (std::size_t j = 0; j < a.keys(b); ++j) {
          if (!is_visible(a, b, h, i, j)) continue;
          const std::size_t k_at = a.kv_row(b, h, j) * a.qk_dim, v_at = a.kv_row(b, h, j) * a.v_dim;
          Real t = 0, dp = 0;
          for (std::size_t d = 0; d < a.qk_dim; ++d) t += Real{query[d]} * Real{a.k[k_at + d]};
          for (std::size_t d = 0; d < a.v_dim; ++d) dp += Real{go[d]} * Real{a.v[v_at + d]};
          Real s = t * factor, slope = 1;
          if (cap != 0) {
            if (std::isinf(t)) {  // a finite score whose gradient is 0 times infinity
              truth.is_finite = false;
              return truth;
            }
            const Real tanh = std::tanh(s / cap);
            slope = 1 - tanh * tanh;
            s = cap * tanh;
          }
          if (!a.alibi_slopes.empty())
            s += Real{a.alibi_slopes[h]} * (static_cast<Real>(j) - static_cast<Real>(position_of(a, b, i)));
          const std::size_t bias_at = a.bias.empty() ? 0 : a.row(a.bias_repeats, b, h, i) * a.kv_len + j;
          if (!a.bias.empty()) s += Real{a.bias[bias_at]};
          if (s == -std::numeric_limits<Real>::infinity()) continue;
          const Real w = std::exp(s - row.lse), ds = w * (dp - mean);
          if (!a.bias.empty()) truth.dbias[bias_at].add(ds, w, size, e.scores);
          for (std::size_t d = 0; d < a.v_dim; ++d)
            truth.dv[v_at + d].add(w * Real{go[d]}, w, Real{go[d]}, e.weights);
          const Real g = ds * slope * factor, g_size = size * factor;
          for (std::size_t d = 0; d < a.qk_dim; ++d) {
            truth.dq[q_at + d].add(g * Real{a.k[k_at + d]}, w, g_size * Real{a.k[k_at + d]}, e.scores);
            truth.dk[k_at + d].add(g * Real{query[d]}, w, g_size * Real{query[d]}, e.scores);
          }
        }
        if (!a.sinks.empty()) {
          const Real w = std::exp(Real{a.sinks[h]} - row.lse);
          truth.dsinks[h].add(-w * mean, w, size, e.scores);
        }
      }
    }
  }
  return truth;
}

}  // namespace rapt::test::oracle
