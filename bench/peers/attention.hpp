// Attention as rapt and its peers are both asked for it.
#pragma once

#include <algorithm>
#include <cstddef>

namespace rapt::bench {

// Query head h reads key/value head h / (q_heads / kv_heads). The last query stands at the last key.
struct AttentionShape {
  std::size_t q_heads = 1, kv_heads = 1;
  std::size_t q_len = 0, kv_len = 0;
  std::size_t qk_dim = 0, v_dim = 0;
  bool causal = false;
  std::size_t window = 0;  // how many keys a query sees, itself among them; 0: no limit
  double softcap = 0;      // 0: none

  std::size_t group() const { return q_heads / kv_heads; }
  // Query i sees the keys from first_key(i) to last_key(i) - 1.
  std::size_t first_key(std::size_t i) const {
    const std::size_t end = kv_len - q_len + i + 1;
    return window > 0 && end > window ? end - window : 0;
  }
  std::size_t last_key(std::size_t i) const { return causal ? kv_len - q_len + i + 1 : kv_len; }
};

// Tokens lie without gaps in their heads, and heads in their tensors. The scale is 1/sqrt(qk_dim).
template <class T>
struct AttentionProblem {
  AttentionShape shape;
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const T *sinks = nullptr;  // one a query head, or null
  T *out = nullptr;
  // For whoever holds scores: attention_score_rows rows at most, of attention_score_stride(kv_len) elements
  // each. It is also what rapt takes as workspace.
  T *scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

// Its gradient, from the output, the log-sum-exp of its rows and the gradient of the output.
template <class T>
struct AttentionGradientProblem {
  AttentionProblem<T> forward;
  const T *lse = nullptr;  // one a query
  const T *dout = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  // As forward.scratch, for two blocks of scores.
  T *scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

constexpr std::size_t attention_score_rows = 128;

// Calls block(head, i, rows) for all rows, `most` at most at a time: queries i to i + rows - 1
// of one head, or, where each head has a single query, those of `rows` heads that read the same keys.
template <class Block>
void for_each_block(const AttentionShape &shape, std::size_t most, const Block &block) {
  if (shape.q_len == 1) {
    for (std::size_t first = 0; first < shape.q_heads; first += shape.group()) {
      for (std::size_t r = 0; r < shape.group(); r += most) {
        block(first + r, std::size_t{0}, std::min(shape.group() - r, most));
      }
    }
    return;
  }
  for (std::size_t head = 0; head < shape.q_heads; ++head) {
    for (std::size_t i = 0; i < shape.q_len; i += most) {
      block(head, i, std::min(shape.q_len - i, most));
    }
  }
}

// No power of two, which would have the rows of a block meet in few sets of a cache.
constexpr std::size_t attention_score_stride(std::size_t keys) { return (keys + 15) / 16 * 16 + 16; }

}  // namespace rapt::bench
