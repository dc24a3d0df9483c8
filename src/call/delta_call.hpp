// Describes some tokens of a head of rapt_delta_rule, for some columns of its state.
#pragma once

#include <cstddef>

namespace rapt {

struct StateLayout {
  std::ptrdiff_t key,
      value;  // from one key dimension to the next, and from one value dimension. One of them is 1
};

// A step leads from one token to the next, in elements. All arrays are of f32.
struct DeltaCall {
  std::size_t tokens;   // not 0
  std::size_t key_dim;  // elements of a row of q and k, and rows of the state
  std::size_t columns;  // of the state: elements of a row of v and out
  std::size_t queries;  // heads of q that share the state, each with its own outputs

  const float *q, *k, *v;
  float *out;
  std::ptrdiff_t q_step, k_step, v_step, out_step;
  std::ptrdiff_t query_step, answer_step;     // from one of the queries to the next in q, and in out
  const float *decay;                         // factors of the state
  std::ptrdiff_t decay_step, decay_key_step;  // decay_key_step: from one key dimension to the next, 0 or 1
  const float *beta;                          // null: no delta
  std::ptrdiff_t beta_step;
  float scale;

  // The state lies in scratch from one call to the next. The first call of a head takes it from `from`. The last one
  // need not leave it there.
  bool begins, ends;
  const float *from;  // null: zeros
  StateLayout from_layout;
  const float *ahead;  // the state that the next call of the task takes, fetched ahead; or null
  float *to;           // where the state is copied after the last token, or null
  StateLayout to_layout;
  float *scratch;  // of delta_scratch() elements, at a multiple of 64 bytes
};

inline constexpr std::size_t delta_block = 64;  // columns of which kernels may make a whole

// Kernels keep the state in blocks of columns, and a copy of a block.
constexpr std::size_t delta_scratch(std::size_t key_dim, std::size_t columns) {
  return ((columns + delta_block - 1) / delta_block + 1) * delta_block * key_dim;
}

}  // namespace rapt
