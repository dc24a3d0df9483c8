// Implements the scalar reference of the delta rule: column by column, token by token (contract/delta_rule.hpp).
#pragma once

#include <cmath>
#include <cstddef>

#include "call/delta_call.hpp"
#include "contract/delta_rule.hpp"
#include "contract/fused.hpp"

namespace {

// Operations under FTZ and DAZ, in any mode of the processor.
struct Flushed {
  static float number(float x) { return std::fabs(x) < rapt::delta_least ? std::copysign(0.0f, x) : x; }
  static float fma(float a, float b, float c) {
    a = number(a), b = number(b), c = number(c);
    const float sum = fused(a, b, c);
    if (std::fabs(sum) != rapt::delta_least) return number(sum);
    // The smallest normal number may be a tiny result that was rounded up. The same operation at 2^64 times the size
    // shows whether it was.
    constexpr float up = 0x1p64f;
    const float large = std::fabs(a) < std::fabs(b) ? fused(a * up, b, c * up) : fused(a, b * up, c * up);
    return std::fabs(large) < rapt::delta_least * up ? std::copysign(0.0f, sum) : sum;
  }
  static float product(float a, float b) { return fma(a, b, -0.0f); }
  // Differences of normal numbers are exact where they are tiny.
  static float difference(float a, float b) { return number(number(a) - number(b)); }
};

inline void delta_rule_of_column(const rapt::DeltaCall &call, std::size_t column, float *state) {
  const std::size_t n = call.key_dim;
  for (std::size_t t = 0; t < call.tokens; ++t) {
    const auto at = static_cast<std::ptrdiff_t>(t);
    const float *const k = call.k + at * call.k_step, *const decay = call.decay + at * call.decay_step;
    float u = Flushed::number(call.v[at * call.v_step + static_cast<std::ptrdiff_t>(column)]);
    float r = 0;
    for (std::size_t i = 0; i < n; ++i) {
      state[i] = Flushed::product(state[i], decay[static_cast<std::ptrdiff_t>(i) * call.decay_key_step]);
      r = Flushed::fma(k[i], state[i], r);
    }
    if (call.beta) u = Flushed::product(call.beta[at * call.beta_step], Flushed::difference(u, r));
    for (std::size_t i = 0; i < n; ++i) state[i] = Flushed::fma(k[i], u, state[i]);
    for (std::size_t query = 0; query < call.queries; ++query) {
      const auto head = static_cast<std::ptrdiff_t>(query);
      const float *const q = call.q + at * call.q_step + head * call.query_step;
      float o = 0;
      for (std::size_t i = 0; i < n; ++i) o = Flushed::fma(q[i], state[i], o);
      call.out[at * call.out_step + head * call.answer_step + static_cast<std::ptrdiff_t>(column)] =
          Flushed::product(call.scale, o);
    }
  }
}

template <class A>
void delta_rule(const rapt::DeltaCall *call) {
  const std::size_t n = call->key_dim;
  for (std::size_t column = 0; column < call->columns; ++column) {
    float *const state = call->scratch + column * n;
    const auto across = static_cast<std::ptrdiff_t>(column);
    for (std::size_t i = 0; call->begins && i < n; ++i) {
      const auto down = static_cast<std::ptrdiff_t>(i);
      state[i] =
          call->from ? call->from[down * call->from_layout.key + across * call->from_layout.value] : 0.0f;
    }
    delta_rule_of_column(*call, column, state);
    for (std::size_t i = 0; call->to && i < n; ++i) {
      call->to[static_cast<std::ptrdiff_t>(i) * call->to_layout.key + across * call->to_layout.value] =
          state[i];
    }
  }
}

}  // namespace
