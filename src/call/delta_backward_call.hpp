// Describes some tokens of a head of rapt_delta_rule_backward, for all columns of its state.
#pragma once

#include <cstddef>

#include "contract/delta_rule.hpp"

namespace rapt {

// Rows of states, and of what has one element a column, have so many elements in scratch. Those of columns that do not
// exist are 0.
constexpr std::size_t delta_pitch(std::size_t columns) {
  return (columns + delta_lanes - 1) / delta_lanes * delta_lanes;
}

// A step leads from one token to the next, in elements. All arrays are of f32, and states [key_dim][pitch].
struct DeltaBackwardCall {
  std::size_t tokens;   // not 0
  std::size_t key_dim;  // elements of a row of q and k, and rows of the state
  std::size_t columns;  // of the state: elements of a row of v and dout
  std::size_t queries;  // heads of q that share the state, each with its own outputs

  const float *q, *k, *v, *dout;
  std::ptrdiff_t q_step, k_step, v_step, dout_step;
  std::ptrdiff_t query_step, answer_step;     // from one of the queries to the next in q, and in dout
  const float *decay;                         // factors of the state
  std::ptrdiff_t decay_step, decay_key_step;  // decay_key_step: from one key dimension to the next, 0 or 1
  const float *beta;                          // null: no delta
  std::ptrdiff_t beta_step;
  float scale;

  const float *before;  // the state before the first token
  // Where the state after the last token is stored. Gradients are then not computed. Or null.
  float *after;
  float *gradient;  // of the state after the last token; becomes that of the state before the first

  // Results. Rows of dq are [tokens][queries][key_dim], and those of dk [tokens][key_dim]. dg is [tokens][key_dim], or
  // [tokens] if decay_key_step is 0. dbeta is [tokens].
  float *dq, *dk, *dv, *dg, *dbeta;
  std::ptrdiff_t dv_step;

  float *scratch;  // of delta_backward_scratch() elements, at a multiple of 64 bytes
};

// Parts of the scratch.
struct DeltaBackwardScratch {
  std::size_t state, pitch;  // elements of a state, and of a row of columns

  DeltaBackwardScratch(std::size_t key_dim, std::size_t columns)
      : state(key_dim * delta_pitch(columns)), pitch(delta_pitch(columns)) {}

  // The state of each token after its decay, [tokens][key_dim][pitch]. Without gradients there is one.
  static constexpr std::size_t decayed = 0;
  // What each token adds to the state for a unit of k, and v - r: [tokens][2][pitch].
  std::size_t values(std::size_t tokens) const { return tokens * state; }
  // A copy of the gradient, for CPUs that flush before they round.
  std::size_t copy(std::size_t tokens) const { return values(tokens) + 2 * tokens * pitch; }
  // Gradients of the outputs times the scale, of two tokens, [2][queries][pitch]. Then w and -dv, [2][pitch].
  std::size_t rows(std::size_t tokens) const { return copy(tokens) + state; }
  // Sums of dq, dk and dg, [key_dim][3][lanes].
  std::size_t sums(std::size_t tokens, std::size_t queries) const {
    return rows(tokens) + (2 * queries + 2) * pitch;
  }
  std::size_t size(std::size_t key_dim, std::size_t tokens, std::size_t queries) const {
    return sums(tokens, queries) + (3 * delta_lanes + 1) * key_dim + delta_lanes;
  }
};

}  // namespace rapt
