// Benchmarks attention over int8 keys and values with scales. Peers have one scale per 32 elements, so they
// are compared only with rapt's groups of 32.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "attention_bench.hpp"
#include "attention_part.hpp"
#include "support/accuracy.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {
namespace {

Buffer<std::int8_t> bytes(std::size_t n) {
  Buffer<std::int8_t> made(n);
  Uniform uniform;
  for (std::int8_t &element : made.elements()) {
    element = static_cast<std::int8_t>(static_cast<int>(255 * uniform()) - 127);
  }
  return made;
}
// Returns scales that are exact in f16, because peers store their scales in f16.
Buffer<float> scales(std::size_t n) {
  Buffer<float> made(n);
  Uniform uniform;
  for (float &scale : made.elements()) scale = static_cast<float>(std::floor(1024 * (1 + uniform())) / 65536);
  return made;
}

Buffer<std::byte> blocks(const Buffer<std::int8_t> &elements, const Buffer<float> &scales) {
  Buffer<std::byte> made(scales.size() * block_bytes);
  for (std::size_t i = 0; i < scales.size(); ++i) {
    std::byte *const block = made.data() + i * block_bytes;
    rapt_f16 scale;
    rapt_convert_f32_to_f16(scales.data() + i, &scale, 1);
    std::memcpy(block, &scale, sizeof(scale));
    std::memcpy(block + sizeof(scale), elements.data() + i * block_elements, block_elements);
  }
  return made;
}

struct Int8Attention : TypedAttention<float, std::int8_t> {
  Int8Attention(const AttentionShape &shape, bool packed, std::size_t group, bool with_blocks,
                std::size_t run = 0)
      : TypedAttention(shape, logits<float>(shape.q_heads * shape.q_len * shape.qk_dim, 0, 0),
                       bytes(shape.kv_heads * (shape.kv_len + 63) / 64 * 64 * shape.qk_dim),
                       bytes(shape.kv_heads * shape.kv_len * shape.v_dim)),
        k_scales(scales(shape.kv_heads * shape.kv_len * groups(shape.qk_dim, group))),
        v_scales(scales(shape.kv_heads * shape.kv_len * groups(shape.v_dim, group))) {
    options.kv_type = RAPT_I8;
    options.packed_keys = packed;
    options.scale_group = group;
    options.k_scales = k_scales.data();
    options.v_scales = v_scales.data();
    prepare(run);
    if (!with_blocks) return;
    k_blocks = blocks(k, k_scales);
    v_blocks = blocks(v, v_scales);
  }
  static std::size_t groups(std::size_t dim, std::size_t group) { return group == 0 ? 1 : dim / group; }

  BlockAttentionProblem problem() const {
    return {.shape = shape, .q = q.data(), .k = k_blocks.data(), .v = v_blocks.data(), .out = out.data()};
  }

  Buffer<float> k_scales, v_scales;
  Buffer<std::byte> k_blocks{0}, v_blocks{0};  // for peers, with a scale per 32 elements
};

using Part = AttentionPart<Int8Attention, BlockAttention>;
constexpr Part whole = {&Int8Attention::whole, nullptr};
constexpr Part partial = {&Int8Attention::partial, nullptr};
constexpr Part merge = {&Int8Attention::merge, nullptr};

double int8_attention_error(Part part) {
  return worst_attention_error([&](const AttentionShape &shape) {
    const Int8Attention buffers(shape, false, block_elements, true);
    part(buffers);
    const auto widened = [](const Buffer<std::int8_t> &elements, const Buffer<float> &scales) {
      Buffer<float> made(scales.size() * block_elements);
      for (std::size_t i = 0; i < made.size(); ++i)
        made.data()[i] = elements.data()[i] * scales.data()[i / block_elements];
      return made;
    };
    const Buffer<float> k = widened(buffers.k, buffers.k_scales), v = widened(buffers.v, buffers.v_scales);
    return attention_output_error<float>(
        {.shape = shape, .q = buffers.q.data(), .k = k.data(), .v = v.data(), .out = buffers.out.data()});
  });
}

void add_part(Kernel<Part> kernel, bool is_whole) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, const AttentionShape &shape, bool packed = false,
                       std::size_t group = 0, std::size_t run = 0) {
    Work work = attention_work(shape, 1);
    work.element_bytes = sizeof(float);
    work.multiply_adds_of_tile = shape.q_len > 1 ? tile_of_bf16 : 0;
    work.read += shape.kv_heads * shape.kv_len * sizeof(float) *
                 (Int8Attention::groups(shape.qk_dim, group) + Int8Attention::groups(shape.v_dim, group));
    const bool for_peers = group == block_elements;
    const bool with_blocks = for_peers && suite.plan().peers;
    const auto make = [=] {
      Int8Attention buffers(shape, packed, group, with_blocks, run);
      buffers.partial();  // the merge step reads these results
      return [buffers = std::move(buffers)](Part one) { one(buffers); };
    };
    kernel.add(size, work, make, for_peers ? By::everyone : By::rapt_alone);
  };
  const auto add_groups = [&](const std::string &size, const AttentionShape &shape) {
    for (const std::size_t group : suite.sizes({32, 64}, {32}))
      add(size + ":group" + std::to_string(group), shape, false, group);
  };
  for (const std::size_t dim : suite.sizes({64, 128}, {128})) {
    for (const std::size_t q_heads : Sizes{8, 32}) {
      for (const std::size_t keys : suite.sizes({512, 4096, 32768}, {512, 4096})) {
        const AttentionShape shape = token_shape(q_heads, 8, keys, dim, dim);
        add(decode_size(shape), shape);
        if (!is_whole) continue;
        if (keys == 4096) add(decode_size(shape) + ":packed", shape, true);
        if (keys == 4096 || !suite.plan().quick) add_groups(decode_size(shape), shape);
        if (suite.plan().quick) continue;
        for (const std::size_t run : Sizes{1, 64}) add(listed_size(shape, run), shape, false, 0, run);
      }
    }
    if (!is_whole) continue;
    const AttentionShape shape = prompt_shape(1, 1, 1024, dim, dim, false);
    const std::string prefill = "prefill:d" + std::to_string(dim) + ":t1024";
    add(prefill, shape);
    add_groups(prefill, shape);
  }
  if (!is_whole || suite.plan().quick) return;
  for (const AttentionShape &shape : compared_shapes(1)) {
    add(decode_size(shape), shape);
    if (shape.qk_dim % 64 == 0) add_groups(decode_size(shape), shape);
  }
}

}  // namespace

void register_attention_i8(Suite &suite) {
  const auto of_peer = [](const Peer &peer) { return Part{nullptr, peer.i8.attention}; };
  add_part(suite.kernel(whole, of_peer, int8_attention_error, 1), true);
}
void register_attention_partial_i8(Suite &suite) {
  if (!suite.plan().quick) add_part(suite.kernel(partial, 1), false);
}
void register_attention_merge_i8(Suite &suite) {
  if (!suite.plan().quick) add_part(suite.kernel(merge, 1), false);
}

}  // namespace rapt::bench
