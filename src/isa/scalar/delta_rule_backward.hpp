// Implements the scalar reference of the delta rule's gradients: token by token (contract/delta_rule.hpp).
#pragma once

#include <cstddef>

#include "call/delta_backward_call.hpp"
#include "contract/delta_rule.hpp"
#include "isa/scalar/delta_rule.hpp"

namespace {

// A sum over columns, or over the rows of a state.
class DeltaSum {
 public:
  void add(std::size_t j, float a, float b) {
    float &lane = lanes_[j % rapt::delta_lanes];
    lane = Flushed::fma(a, b, lane);
  }
  // Terms are missing from `count` on.
  void fill(std::size_t count) {
    for (std::size_t j = count; j % rapt::delta_lanes != 0; ++j) add(j, 0, 0);
  }
  float fold() {
    for (std::size_t half = rapt::delta_lanes / 2; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) lanes_[l] = Flushed::number(lanes_[l] + lanes_[l + half]);
    }
    return lanes_[0];
  }

 private:
  float lanes_[rapt::delta_lanes] = {};
};

struct DeltaGradients {
  const rapt::DeltaBackwardCall &call;
  const rapt::DeltaBackwardScratch parts{call.key_dim, call.columns};

  static std::ptrdiff_t at(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }
  const float *k(std::size_t t) const { return call.k + at(t) * call.k_step; }
  const float *q(std::size_t t, std::size_t query) const {
    return call.q + at(t) * call.q_step + at(query) * call.query_step;
  }
  float decay(std::size_t t, std::size_t i) const {
    return call.decay[at(t) * call.decay_step + at(i) * call.decay_key_step];
  }
  float dout(std::size_t t, std::size_t query, std::size_t j) const {
    return Flushed::product(call.scale,
                            call.dout[at(t) * call.dout_step + at(query) * call.answer_step + at(j)]);
  }
  // Without gradients, one decayed state serves all tokens.
  float *decayed(std::size_t t) const { return call.scratch + (call.after ? 0 : t * parts.state); }
  float *u(std::size_t t) const { return call.scratch + parts.values(kept()) + 2 * t * parts.pitch; }
  float *difference(std::size_t t) const { return u(t) + parts.pitch; }
  std::size_t kept() const { return call.after ? 1 : call.tokens; }

  void see(std::size_t t, std::size_t j) const {
    const std::size_t n = call.key_dim, pitch = parts.pitch, row = call.after ? 0 : t;
    const float *const from = call.after ? decayed(0) : t > 0 ? decayed(t - 1) : nullptr;
    float r = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t e = i * pitch + j;
      const float state =
          t == 0 ? call.before[e] : Flushed::fma(k(t - 1)[i], u(call.after ? 0 : t - 1)[j], from[e]);
      decayed(t)[e] = Flushed::product(state, decay(t, i));
      r = Flushed::fma(k(t)[i], decayed(t)[e], r);
    }
    const float v = call.v[at(t) * call.v_step + at(j)];
    difference(row)[j] = Flushed::difference(v, r);
    u(row)[j] = call.beta ? Flushed::product(call.beta[at(t) * call.beta_step], difference(row)[j])
                          : Flushed::number(v);
  }
  float state(std::size_t t, std::size_t i, std::size_t j) const {
    return Flushed::fma(k(t)[i], u(call.after ? 0 : t)[j], decayed(t)[i * parts.pitch + j]);
  }

  void add_outputs(std::size_t t) const {
    for (std::size_t query = 0; query < call.queries; ++query) {
      for (std::size_t i = 0; i < call.key_dim; ++i) {
        DeltaSum dq;
        for (std::size_t j = 0; j < call.columns; ++j) {
          const float p = dout(t, query, j);
          float &g = call.gradient[i * parts.pitch + j];
          dq.add(j, state(t, i, j), p);
          g = Flushed::fma(q(t, query)[i], p, g);
        }
        dq.fill(call.columns);
        call.dq[(t * call.queries + query) * call.key_dim + i] = dq.fold();
      }
    }
  }
  void go_back(std::size_t t) const {
    const float *const a = decayed(t);
    float *const dv = call.dv + at(t) * call.dv_step;
    DeltaSum dbeta, dg;
    for (std::size_t j = 0; j < call.columns; ++j) {
      float w = 0;
      for (std::size_t i = 0; i < call.key_dim; ++i)
        w = Flushed::fma(k(t)[i], call.gradient[i * parts.pitch + j], w);
      dbeta.add(j, w, difference(t)[j]);
      dv[j] = call.beta ? Flushed::product(call.beta[at(t) * call.beta_step], w) : w;
    }
    dbeta.fill(call.columns);
    call.dbeta[t] = dbeta.fold();
    for (std::size_t i = 0; i < call.key_dim; ++i) {
      DeltaSum dk, dg_of_row;
      for (std::size_t j = 0; j < call.columns; ++j) {
        const std::size_t e = i * parts.pitch + j;
        float &g = call.gradient[e];
        dk.add(j, g, u(t)[j]);
        if (call.beta) {
          dk.add(j, a[e], -dv[j]);
          g = Flushed::fma(k(t)[i], -dv[j], g);
        }
        dg_of_row.add(j, g, a[e]);
        g = Flushed::product(g, decay(t, i));
      }
      dk.fill(call.columns), dg_of_row.fill(call.columns);
      call.dk[t * call.key_dim + i] = dk.fold();
      const float of_row = dg_of_row.fold();
      if (call.decay_key_step != 0) call.dg[t * call.key_dim + i] = of_row;
      dg.add(i, of_row, 1);
    }
    dg.fill(call.key_dim);
    if (call.decay_key_step == 0) call.dg[t] = dg.fold();
  }
};

template <class A>
void delta_rule_backward(const rapt::DeltaBackwardCall *call) {
  const DeltaGradients of{*call};
  for (std::size_t t = 0; t < call->tokens; ++t) {
    for (std::size_t j = 0; j < call->columns; ++j) of.see(t, j);
  }
  if (call->after) {
    for (std::size_t i = 0; i < call->key_dim; ++i) {
      for (std::size_t j = 0; j < call->columns; ++j)
        call->after[i * of.parts.pitch + j] = of.state(call->tokens - 1, i, j);
    }
    return;
  }
  for (std::size_t t = call->tokens; t-- > 0;) {
    of.add_outputs(t);
    of.go_back(t);
  }
}

}  // namespace
