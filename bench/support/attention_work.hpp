// Builds the shapes of attention that are timed, and computes the work of a call.
#pragma once

#include <cstddef>

#include "peers/functions.hpp"
#include "support/work.hpp"

namespace rapt::bench {

// Returns the shape of a prompt, which has as many queries as keys.
constexpr AttentionShape prompt_shape(std::size_t q_heads, std::size_t kv_heads, std::size_t tokens,
                                      std::size_t qk_dim, std::size_t v_dim, bool causal) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .q_len = tokens,
          .kv_len = tokens,
          .qk_dim = qk_dim,
          .v_dim = v_dim,
          .causal = causal};
}

// Returns the shape of one decoded token. `keys` includes the key of that token.
constexpr AttentionShape token_shape(std::size_t q_heads, std::size_t kv_heads, std::size_t keys,
                                     std::size_t qk_dim, std::size_t v_dim) {
  AttentionShape shape = prompt_shape(q_heads, kv_heads, keys, qk_dim, v_dim, true);
  shape.q_len = 1;
  return shape;
}

// Work::elements counts the multiply-adds of q . k and weight * v over visible keys. The bytes are those of
// queries, outputs, and visible keys and values. A key or value counts once, even if several heads read it.
Work attention_work(const AttentionShape &shape, std::size_t element_bytes);

}  // namespace rapt::bench
