#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention_bench.hpp"

namespace rapt::bench {
namespace {

AttentionShape one_token(std::size_t q_heads, std::size_t dim, std::size_t keys) {
  return token_shape(q_heads, 8, keys, dim, dim);
}

AttentionShape few_tokens(std::size_t q_heads, std::size_t tokens) {
  AttentionShape shape = one_token(q_heads, 128, 4096);
  shape.q_len = tokens;
  return shape;
}

// Adds a call with packed keys. The packing is not timed.
template <class T>
void add_packed(Kernel<Attention<T>> &kernel, const AttentionShape &shape) {
  const auto make = [shape] {
    const std::size_t head = (shape.kv_len + 63) / 64 * 64 * shape.qk_dim;
    AttentionBuffers<T> buffers(shape);
    Buffer<T> packed(shape.kv_heads * head);
    const rapt_attention_options options = attention_options<T>(shape);
    for (std::size_t h = 0; h < shape.kv_heads; ++h) {
      require_ok(rapt_attention_pack_keys(buffers.keys() + h * shape.kv_len * shape.qk_dim, 0, 0,
                                          shape.kv_len, &options, packed.data() + h * head));
    }
    return [shape, packed = std::move(packed), buffers = std::move(buffers)](Attention<T>) {
      rapt_attention_options options = attention_options<T>(shape);
      options.packed_keys = 1;
      buffers.attention(packed.data(), buffers.values(), options);
    };
  };
  kernel.add(decode_size(shape) + ":packed", attention_work(shape, sizeof(T)), make, By::rapt_alone);
}

// Adds a call with a few tokens after a context, as in speculative decoding and chunked prefill.
template <class T>
void add_few_tokens(Kernel<Attention<T>> &kernel, std::size_t q_heads, std::size_t tokens) {
  const AttentionShape shape = few_tokens(q_heads, tokens);
  add_attention(kernel, decode_size(shape), shape);
}

// Adds a call with paged keys and values. The pages are equal parts of contiguous buffers.
template <class T>
void add_paged(Kernel<Attention<T>> &kernel, const AttentionShape &shape, std::size_t page_size) {
  const auto make = [shape, page_size] {
    return [shape, page_size, pages = scattered_pages(shape.kv_len / page_size),
            buffers = AttentionBuffers<T>(shape)](Attention<T>) {
      rapt_attention_options options = attention_options<T>(shape);
      options.block_table = pages.data();
      options.page_size = page_size;
      buffers.attention(options);
    };
  };
  kernel.add(decode_size(shape) + ":page" + std::to_string(page_size), attention_work(shape, sizeof(T)), make,
             By::rapt_alone);
}

// Adds a call with a list of all keys, in runs of `run` keys that follow each other in the cache.
template <class T>
void add_listed(Kernel<Attention<T>> &kernel, const AttentionShape &shape, std::size_t run) {
  const auto make = [shape, run] {
    return [shape, list = scattered_keys(shape.kv_len, run),
            buffers = AttentionBuffers<T>(shape)](Attention<T>) {
      rapt_attention_options options = attention_options<T>(shape);
      list_keys(options, list);
      buffers.attention(options);
    };
  };
  kernel.add(listed_size(shape, run), attention_work(shape, sizeof(T)), make, By::rapt_alone);
}

}  // namespace

std::string decode_size(const AttentionShape &shape) {
  const std::string v_dim = shape.v_dim == shape.qk_dim ? "" : fmt::format("v{}", shape.v_dim);
  const std::string queries = shape.q_len == 1 ? "" : fmt::format("q{}:", shape.q_len);
  return fmt::format("decode:{}x{}:d{}{}:{}k{}", shape.q_heads, shape.kv_heads, shape.qk_dim, v_dim, queries,
                     shape.kv_len);
}

std::string listed_size(const AttentionShape &shape, std::size_t run) {
  return decode_size(shape) + ":list" + std::to_string(run);
}

std::vector<AttentionShape> compared_shapes(std::size_t multiple) {
  std::vector<AttentionShape> shapes;
  for (const std::size_t tokens : Sizes{2, 4, 8, 16, 32, 64}) shapes.push_back(few_tokens(8, tokens));
  for (const std::size_t dim : Sizes{72, 80, 88, 96, 112}) {
    if (dim % multiple == 0) shapes.push_back(one_token(8, dim, 4096));
  }
  return shapes;
}

template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel) {
  const Suite &suite = kernel.suite();
  const auto add = [&kernel](const AttentionShape &shape) {
    add_attention(kernel, decode_size(shape), shape);
  };
  if (sizeof(T) == sizeof(float)) {
    // These calls are so small that their fixed cost is a large part of the time. 17 keys exceed the lanes of
    // an AVX-512 vector by one, and 65 keys exceed a block of 64 keys by one.
    const auto of_one_head = [](std::size_t keys) { return token_shape(1, 1, keys, 64, 64); };
    for (const AttentionShape &shape :
         suite.choose<AttentionShape>({of_one_head(1), of_one_head(16), one_token(8, 64, 16),
                                       one_token(8, 64, 17), one_token(8, 64, 65), one_token(8, 128, 65)},
                                      {of_one_head(1), one_token(8, 64, 16)})) {
      add(shape);
    }
  }
  const bool few = suite.plan().quick || sizeof(T) != sizeof(float);
  if (few) {
    for (const std::size_t keys : suite.sizes({512, 4096, 32768}, {4096})) {
      add(one_token(8, 128, keys));
      add(one_token(32, 128, keys));
    }
    if (suite.plan().quick) {
      add_few_tokens(kernel, 8, 9);
    } else {
      add_packed(kernel, one_token(8, 128, 4096));
    }
    return;
  }
  for (const std::size_t q_heads : Sizes{8, 32}) {
    for (const std::size_t dim : Sizes{64, 128}) {
      for (const std::size_t keys : Sizes{128, 512, 4096, 32768}) add(one_token(q_heads, dim, keys));
      for (const std::size_t keys : Sizes{512, 4096, 32768}) {
        const AttentionShape shape = one_token(q_heads, dim, keys);
        add_packed(kernel, shape);
        add_paged(kernel, shape, 16);
        add_paged(kernel, shape, 64);
        for (const std::size_t run : Sizes{1, 64}) add_listed(kernel, shape, run);
      }
    }
  }
  for (const AttentionShape &shape : compared_shapes(1)) add(shape);
  for (const std::size_t tokens : Sizes{9, 12, 17, 33, 128}) add_few_tokens(kernel, 8, tokens);
  for (const std::size_t tokens : Sizes{2, 3, 4, 5, 8, 16, 32, 128}) add_few_tokens(kernel, 32, tokens);
  for (const std::size_t keys : Sizes{512, 4096, 32768}) {
    add(token_shape(32, 1, keys, 128, 128));
    add(token_shape(16, 1, keys, 576, 512));
  }
}

template void add_attention_decode<float>(Kernel<Attention<float>> &);
template void add_attention_decode<double>(Kernel<Attention<double>> &);

}  // namespace rapt::bench
