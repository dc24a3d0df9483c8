// Computes an attention layer of a decoder: first the prompt in one call, then token by token with a growing
// KV cache.
//
// Output:
//   prefill of 100 tokens, then 28 tokens decoded
//   the same bits as one call over 128 tokens: yes
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <rapt/rapt.hpp>

#include "random.hpp"

constexpr std::size_t q_heads = 8, kv_heads = 2, dim = 64, capacity = 512;

// Holds keys and values as [kv_heads][capacity][dim]. A token is written once and never moved.
struct Cache {
  std::vector<float> k = std::vector<float>(kv_heads * capacity * dim), v = k;
  std::size_t tokens = 0;
};

// q, k, v and out are [tokens][heads][dim], as projections write them.
rapt_status layer(Cache &cache, std::size_t tokens, const float *q, const float *k, const float *v,
                  float *out) {
  for (std::size_t t = 0; t < tokens; ++t) {
    for (std::size_t h = 0; h < kv_heads; ++h) {
      const std::size_t to = (h * capacity + cache.tokens + t) * dim, from = (t * kv_heads + h) * dim;
      std::copy_n(k + from, dim, &cache.k[to]);
      std::copy_n(v + from, dim, &cache.v[to]);
    }
  }
  cache.tokens += tokens;

  rapt_attention_options options = rapt::attention_options();
  options.q_heads = q_heads;
  options.kv_heads = kv_heads;
  options.q_len = tokens;
  options.kv_len = cache.tokens;
  options.qk_dim = dim;
  options.q_strides = options.out_strides = rapt_strides_bthd(q_heads, tokens, dim);
  options.k_strides = options.v_strides = rapt_strides_bhtd(kv_heads, capacity, dim);
  options.causal = RAPT_CAUSAL_BOTTOM_RIGHT;  // the last query sees the last key

  static std::vector<std::byte> workspace(
      rapt::attention_workspace<float>(options));  // its size never changes
  return rapt_attention(q, cache.k.data(), cache.v.data(), out, &options, workspace.data(), workspace.size());
}

int main() {
  const std::size_t prompt = 100, tokens = 128, q_row = q_heads * dim, kv_row = kv_heads * dim;
  const std::vector<float> q = random_numbers(tokens * q_row, 1), k = random_numbers(tokens * kv_row, 2);
  const std::vector<float> v = random_numbers(tokens * kv_row, 3);
  std::vector<float> whole(q.size()), stepwise(q.size());

  Cache cache, other;
  rapt_status status = layer(cache, prompt, q.data(), k.data(), v.data(), stepwise.data());
  for (std::size_t t = prompt; t < tokens && status == RAPT_OK; ++t) {
    status = layer(cache, 1, &q[t * q_row], &k[t * kv_row], &v[t * kv_row], &stepwise[t * q_row]);
  }
  if (status == RAPT_OK) status = layer(other, tokens, q.data(), k.data(), v.data(), whole.data());
  if (status != RAPT_OK) return std::fprintf(stderr, "%s\n", rapt_status_text(status)), 1;

  std::printf("prefill of %zu tokens, then %zu tokens decoded\n", prompt, tokens - prompt);
  const bool same = std::memcmp(whole.data(), stepwise.data(), whole.size() * sizeof(float)) == 0;
  std::printf("the same bits as one call over %zu tokens: %s\n", tokens, same ? "yes" : "no");
}
