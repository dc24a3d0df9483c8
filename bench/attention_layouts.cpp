// Benchmarks attention on tensors with the layout [token][head][dim], which many inference engines use.
// Tokens are then a power of two apart. Also measures sequences of different lengths, packed end to end.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attention_bench.hpp"

namespace rapt::bench {
namespace {

rapt_strides by_token(std::size_t heads, std::size_t dim, std::size_t tokens, std::size_t padding = 0) {
  const auto row = static_cast<std::ptrdiff_t>(heads * dim + padding);
  return {.batch = row * static_cast<std::ptrdiff_t>(tokens),
          .head = static_cast<std::ptrdiff_t>(dim),
          .token = row};
}

template <class T>
rapt_attention_options options_by_token(const AttentionShape &shape) {
  rapt_attention_options options = attention_options<T>(shape);
  options.q_strides = by_token(shape.q_heads, shape.qk_dim, shape.q_len);
  options.k_strides = by_token(shape.kv_heads, shape.qk_dim, shape.kv_len);
  options.v_strides = by_token(shape.kv_heads, shape.v_dim, shape.kv_len);
  options.out_strides = by_token(shape.q_heads, shape.v_dim, shape.q_len);
  return options;
}

template <class T>
void add_by_token(Kernel<Attention<T>> &kernel, const std::string &phase, const AttentionShape &shape) {
  const std::size_t stride = shape.kv_heads * shape.qk_dim * sizeof(T) / 1024;
  const std::string size = fmt::format("{}:{}x{}:d{}:k{}:stride{}K", phase, shape.q_heads, shape.kv_heads,
                                       shape.qk_dim, shape.kv_len, stride);
  const auto make = [shape] {
    return [shape, buffers = AttentionBuffers<T>(shape)](Attention<T>) {
      buffers.attention(options_by_token<T>(shape));
    };
  };
  kernel.add(size, attention_work(shape, sizeof(T)), make, By::rapt_alone);
}

// Adds decoding from a KV cache with `padding` elements between tokens. Without padding, the token stride is
// a power of two, so tokens compete for few sets of the CPU's caches.
template <class T>
void add_cache_by_token(Kernel<Attention<T>> &kernel, std::size_t dim, std::size_t padding) {
  const AttentionShape shape = token_shape(8, 8, 4096, dim, dim);
  const std::string size = fmt::format("{}:by-token{}", decode_size(shape), 8 * dim + padding);
  const auto make = [shape, dim, padding] {
    const std::size_t length = shape.kv_len * (8 * dim + padding);
    return [shape, dim, padding, k = logits<T>(length, 0, 1), v = logits<T>(length, 0, 2),
            buffers = AttentionBuffers<T>(shape)](Attention<T>) {
      rapt_attention_options options = options_by_token<T>(shape);
      options.k_strides = options.v_strides = by_token(8, dim, shape.kv_len, padding);
      buffers.attention(k.data(), v.data(), options);
    };
  };
  kernel.add(size, attention_work(shape, sizeof(T)), make, By::rapt_alone);
}

// Adds one call on a batch of prompts with these lengths.
template <class T>
void add_ragged(Kernel<Attention<T>> &kernel, const std::vector<std::size_t> &lengths) {
  std::vector<std::int32_t> offsets = {0};
  Work work;
  for (const std::size_t tokens : lengths) {
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(tokens));
    const Work one = attention_work(prompt_shape(32, 8, tokens, 128, 128, true), sizeof(T));
    work.elements += one.elements;
    work.read += one.read;
    work.written += one.written;
    work.element_bytes = one.element_bytes;
    work.multiply_adds = one.multiply_adds;
  }
  const std::size_t longest = *std::max_element(lengths.begin(), lengths.end());
  const auto make = [offsets, longest] {
    const AttentionShape all = prompt_shape(32, 8, static_cast<std::size_t>(offsets.back()), 128, 128, true);
    return [offsets, longest, all, buffers = AttentionBuffers<T>(all)](Attention<T>) {
      rapt_attention_options options = options_by_token<T>(all);
      options.batch = offsets.size() - 1;
      options.q_len = options.kv_len = longest;
      options.q_offsets = options.kv_offsets = offsets.data();
      buffers.attention(options);
    };
  };
  kernel.add(fmt::format("prefill:32x8:d128:ragged{}", lengths.size()), work, make, By::rapt_alone);
}

}  // namespace

template <class T>
void add_attention_layouts(Kernel<Attention<T>> &kernel) {
  const auto prompt = [&](std::size_t q_heads, std::size_t kv_heads) {
    add_by_token(kernel, "prefill", prompt_shape(q_heads, kv_heads, 512, 128, 128, false));
  };
  prompt(32, 32);
  if (kernel.suite().plan().quick) return;
  prompt(32, 8);
  add_by_token(kernel, "decode", token_shape(32, 32, 4096, 128, 128));
  add_by_token(kernel, "decode", token_shape(32, 8, 4096, 128, 128));
  for (const std::size_t dim : Sizes{64, 128}) {
    for (const std::size_t padding : Sizes{0, 16}) add_cache_by_token(kernel, dim, padding);
  }
  add_ragged(kernel, {7, 17, 64, 100, 300, 512, 700, 1300});
}

template void add_attention_layouts<float>(Kernel<Attention<float>> &);

}  // namespace rapt::bench
