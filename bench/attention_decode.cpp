#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "attention_bench.hpp"

namespace rapt::bench {
namespace {

AttentionShape one_token(std::size_t q_heads, std::size_t kv_heads, std::size_t dim, std::size_t keys) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .q_len = 1,
          .kv_len = keys,
          .qk_dim = dim,
          .v_dim = dim,
          .causal = true};
}

std::string size_of(const AttentionShape &shape) {
  return "decode:" + std::to_string(shape.q_heads) + "x" + std::to_string(shape.kv_heads) + ":d" +
         std::to_string(shape.qk_dim) + ":k" + std::to_string(shape.kv_len);
}

// Keys as rapt_attention_pack_keys lays them out, once, before the time is taken.
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
  kernel.add(size_of(shape) + ":packed", attention_work(shape, sizeof(T)), make,
             Kernel<Attention<T>>::By::rapt_alone);
}

// The pages of a sequence, in the order of a store that has been used for a while.
std::vector<std::int32_t> scattered_pages(std::size_t count) {
  std::vector<std::int32_t> pages(count);
  for (std::size_t i = 0; i < count; ++i) pages[i] = static_cast<std::int32_t>(i);
  Uniform next;
  for (std::size_t i = count; i > 1; --i) {
    std::swap(pages[i - 1],
              pages[std::min(i - 1, static_cast<std::size_t>(next() * static_cast<double>(i)))]);
  }
  return pages;
}

// The memory of the keys and values is as large as without pages: what lies in it are pages.
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
  kernel.add(size_of(shape) + ":page" + std::to_string(page_size), attention_work(shape, sizeof(T)), make,
             Kernel<Attention<T>>::By::rapt_alone);
}

}  // namespace

template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel) {
  const Suite &suite = kernel.suite();
  const auto add = [&kernel](const AttentionShape &shape) { add_attention(kernel, size_of(shape), shape); };
  const bool few = suite.plan().quick || sizeof(T) != sizeof(float);
  if (few) {
    for (const std::size_t keys : suite.sizes<std::size_t>({512, 4096, 32768}, {4096})) {
      add(one_token(8, 8, 128, keys));
      add(one_token(32, 8, 128, keys));
    }
    if (!suite.plan().quick) add_packed(kernel, one_token(8, 8, 128, 4096));
    return;
  }
  for (const std::size_t q_heads : {8, 32}) {
    for (const std::size_t dim : {64, 128}) {
      for (const std::size_t keys : {128, 512, 4096, 32768}) add(one_token(q_heads, 8, dim, keys));
      for (const std::size_t keys : {512, 4096, 32768}) {
        const AttentionShape shape = one_token(q_heads, 8, dim, keys);
        add_packed(kernel, shape);
        add_paged(kernel, shape, 16);
        add_paged(kernel, shape, 64);
      }
    }
  }
}

template void add_attention_decode<float>(Kernel<Attention<float>> &);
template void add_attention_decode<double>(Kernel<Attention<double>> &);

}  // namespace rapt::bench
