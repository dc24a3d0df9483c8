// Defines the attention call that is timed for rapt and for the other libraries ("peers").
#pragma once

#include <algorithm>
#include <cstddef>

namespace rapt::bench {

// In a causal shape, the last query is at the position of the last key.
struct AttentionShape {
  std::size_t q_heads = 1, kv_heads = 1;
  std::size_t q_len = 0, kv_len = 0;
  std::size_t qk_dim = 0, v_dim = 0;
  bool causal = false;
  std::size_t window = 0;  // keys that a query sees, including its own; 0: no limit
  double softcap = 0;      // 0: none

  std::size_t q_heads_per_kv_head() const { return q_heads / kv_heads; }
  // Query i sees the keys from first_key(i) to last_key(i) - 1.
  std::size_t first_key(std::size_t i) const {
    const std::size_t end = kv_len - q_len + i + 1;
    return window > 0 && end > window ? end - window : 0;
  }
  std::size_t last_key(std::size_t i) const { return causal ? kv_len - q_len + i + 1 : kv_len; }
};

// All tensors are contiguous with the layout [head][token][dim]. The scale is 1/sqrt(qk_dim).
template <class T>
struct AttentionProblem {
  AttentionShape shape;
  const T *q = nullptr, *k = nullptr, *v = nullptr;
  const T *sinks = nullptr;  // one per query head, or null
  T *out = nullptr;
  // Points to rapt's workspace, or to a peer's scores: at most attention_score_rows rows of
  // attention_score_stride(kv_len) elements.
  T *scratch = nullptr;
  std::size_t scratch_bytes = 0;
};

// Keys and values are int8 in blocks: an f16 scale, then the 32 elements that it multiplies. Queries and the
// output are f32.
struct BlockAttentionProblem {
  AttentionShape shape;
  const float *q = nullptr;
  const void *k = nullptr, *v = nullptr;
  float *out = nullptr;
};
constexpr std::size_t block_elements = 32, block_bytes = 2 + block_elements;

// The inputs of the gradient are the tensors of `forward` (including its output), lse and dout.
template <class T>
struct AttentionGradientProblem {
  AttentionProblem<T> forward;
  const T *lse = nullptr;  // one log-sum-exp per query
  const T *dout = nullptr;
  T *dq = nullptr, *dk = nullptr, *dv = nullptr;
  T *scratch = nullptr;  // like forward.scratch, but for two matrices of scores
  std::size_t scratch_bytes = 0;
};

constexpr std::size_t attention_score_rows = 128;

// Adds 16 elements, because rows that are a large power of two apart would share few sets of a cache.
constexpr std::size_t attention_score_stride(std::size_t keys) { return (keys + 15) / 16 * 16 + 16; }

// Describes the rows whose scores a peer holds at the same time. The rows are successive queries of one head.
// If each head has only one query, the rows are successive heads that read the same keys.
struct Strip {
  const AttentionShape &shape;
  std::size_t head, query;  // of the first row
  std::size_t rows;

  std::size_t head_of(std::size_t r) const { return shape.q_len == 1 ? head + r : head; }
  std::size_t query_of(std::size_t r) const { return shape.q_len == 1 ? query : query + r; }
  // At least one row sees keys first_key() to first_key() + keys() - 1.
  std::size_t first_key() const { return shape.first_key(query); }
  std::size_t keys() const { return shape.last_key(query_of(rows - 1)) - first_key(); }
  // Row r sees the keys from begin(r) to end(r) - 1, counted from first_key().
  std::size_t begin(std::size_t r) const { return shape.first_key(query_of(r)) - first_key(); }
  std::size_t end(std::size_t r) const { return shape.last_key(query_of(r)) - first_key(); }
  // Return the strip's first row in the tensors of queries and of keys.
  std::size_t q_row() const { return head * shape.q_len + query; }
  std::size_t kv_row() const { return head / shape.q_heads_per_kv_head() * shape.kv_len + first_key(); }
};

// Splits all rows into strips of at most `most` rows, and calls function(strip) for each strip.
template <class Function>
void for_each_strip(const AttentionShape &shape, std::size_t most, const Function &function) {
  if (shape.q_len == 1) {
    const std::size_t sharing = shape.q_heads_per_kv_head();
    for (std::size_t first = 0; first < shape.q_heads; first += sharing) {
      for (std::size_t r = 0; r < sharing; r += most) {
        function(Strip{shape, first + r, 0, std::min(sharing - r, most)});
      }
    }
    return;
  }
  for (std::size_t head = 0; head < shape.q_heads; ++head) {
    for (std::size_t i = 0; i < shape.q_len; i += most) {
      function(Strip{shape, head, i, std::min(shape.q_len - i, most)});
    }
  }
}

}  // namespace rapt::bench
