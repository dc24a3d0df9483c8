// Benchmarks attention over keys and values in blocks of files, and of 4 bits. Peers have those of Q8_0.
#include <cmath>
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

struct BlockType {
  rapt_type type;
  const char *name;
  std::size_t bytes;      // of 32 numbers
  std::size_t offset;     // the byte of their f16 offset; 0: none
  std::size_t group = 0;  // numbers that share a scale of an array; 0: scales lie in the block
};
constexpr BlockType block_types[] = {
    {RAPT_Q8_0, "q8_0", 34, 0},         {RAPT_Q4_0, "q4_0", 18, 0},          {RAPT_Q4_1, "q4_1", 20, 2},
    {RAPT_Q5_0, "q5_0", 22, 0},         {RAPT_Q5_1, "q5_1", 24, 2},          {RAPT_IQ4_NL, "iq4_nl", 18, 0},
    {RAPT_I4, "i4:group32", 16, 0, 32}, {RAPT_I4, "i4:group128", 16, 0, 128}};
constexpr BlockType q8_0 = block_types[0];
static_assert(q8_0.bytes == block_bytes);

Buffer<std::byte> blocks(std::size_t elements, const BlockType &of) {
  Buffer<std::byte> made(elements / block_elements * of.bytes);
  Uniform uniform;
  for (std::byte &byte : made.elements()) byte = static_cast<std::byte>(256 * uniform());
  if (of.group != 0) return made;
  const auto put_half = [&](std::byte *at, double value) {
    const auto number = static_cast<float>(value);
    rapt_f16 half;
    rapt_convert_f32_to_f16(&number, &half, 1);
    std::memcpy(at, &half, sizeof half);
  };
  const double of_scale = of.bytes == block_bytes ? 1.0 / 64 : 1.0 / 8;
  for (std::size_t i = 0; i < made.size(); i += of.bytes) {
    put_half(made.data() + i, of_scale * (1 + uniform()));
    if (of.offset != 0) put_half(made.data() + i + of.offset, -8 * of_scale);
  }
  return made;
}

struct BlocksAttention : TypedAttention<float, std::byte> {
  BlocksAttention(const AttentionShape &shape, const BlockType &of)
      : TypedAttention(shape, logits<float>(shape.q_heads * shape.q_len * shape.qk_dim, 0, 0),
                       blocks(shape.kv_heads * shape.kv_len * shape.qk_dim, of),
                       blocks(shape.kv_heads * shape.kv_len * shape.v_dim, of)),
        k_scales(scales(k, of)),
        v_scales(scales(v, of)) {
    options.kv_type = of.type;
    options.scale_group = of.group;
    if (of.group != 0) options.k_scales = k_scales.data(), options.v_scales = v_scales.data();
    prepare();
  }
  static Buffer<float> scales(const Buffer<std::byte> &rows, const BlockType &of) {
    Buffer<float> made(of.group == 0 ? 0 : rows.size() * 2 / of.group);
    Uniform uniform;
    for (float &scale : made.elements()) scale = static_cast<float>((1 + uniform()) / 8);
    return made;
  }
  BlockAttentionProblem problem() const {
    return {.shape = shape, .q = q.data(), .k = k.data(), .v = v.data(), .out = out.data()};
  }

  Buffer<float> k_scales, v_scales;
};

using Part = AttentionPart<BlocksAttention, BlockAttention>;
constexpr Part whole = {&BlocksAttention::whole, nullptr};
constexpr Part partial = {&BlocksAttention::partial, nullptr};

double blocks_attention_error(Part part) {
  return worst_attention_error([&](const AttentionShape &shape) {
    const BlocksAttention buffers(shape, q8_0);
    part(buffers);
    const auto widened = [&](const Buffer<std::byte> &rows, std::size_t dim) {
      Buffer<float> made(shape.kv_heads * shape.kv_len * dim);
      require_ok(rapt_dequantize_rows(rows.data(), RAPT_Q8_0, shape.kv_heads * shape.kv_len, dim, 0, nullptr,
                                      nullptr, nullptr, RAPT_TYPE_DEFAULT, nullptr, made.data(), RAPT_F32,
                                      0));
      return made;
    };
    const Buffer<float> k = widened(buffers.k, shape.qk_dim), v = widened(buffers.v, shape.v_dim);
    return attention_output_error<float>(
        {.shape = shape, .q = buffers.q.data(), .k = k.data(), .v = v.data(), .out = buffers.out.data()});
  });
}

void add_part(Kernel<Part> kernel, bool is_whole) {
  const Suite &suite = kernel.suite();
  const auto add = [&](const std::string &size, const AttentionShape &shape, const BlockType &of) {
    Work work = attention_work(shape, sizeof(float));
    const std::size_t elements = shape.kv_heads * shape.kv_len * (shape.qk_dim + shape.v_dim);
    work.read = work.read - elements * sizeof(float) + elements / block_elements * of.bytes;
    if (of.group != 0) work.read += elements / of.group * sizeof(float);
    const auto make = [=] { return [buffers = BlocksAttention(shape, of)](Part one) { one(buffers); }; };
    kernel.add(size + ":" + of.name, work, make, of.type == RAPT_Q8_0 ? By::everyone : By::rapt_alone);
  };
  for (const std::size_t dim : suite.sizes({64, 128}, {128})) {
    for (const std::size_t q_heads : Sizes{8, 32}) {
      for (const std::size_t keys : suite.sizes({512, 4096, 32768}, {4096})) {
        const AttentionShape shape = token_shape(q_heads, 8, keys, dim, dim);
        add(decode_size(shape), shape, q8_0);
        for (const BlockType &of : block_types) {
          if (of.type != RAPT_Q8_0 && keys == 4096 && (!suite.plan().quick || of.type == RAPT_Q4_0) &&
              is_whole)
            add(decode_size(shape), shape, of);
        }
      }
    }
    if (!is_whole) continue;
    add("prefill:d" + std::to_string(dim) + ":t1024", prompt_shape(1, 1, 1024, dim, dim, false), q8_0);
  }
  if (!is_whole || suite.plan().quick) return;
  for (const AttentionShape &shape : compared_shapes(block_elements)) {
    for (const BlockType &of : {q8_0, block_types[1]}) add(decode_size(shape), shape, of);
  }
}

}  // namespace

void register_attention_dequantizing(Suite &suite) {
  const auto of_peer = [](const Peer &peer) { return Part{nullptr, peer.i8.attention}; };
  add_part(suite.kernel(whole, of_peer, blocks_attention_error, 1), true);
}
void register_attention_partial_dequantizing(Suite &suite) {
  if (!suite.plan().quick) add_part(suite.kernel(partial, 1), false);
}

}  // namespace rapt::bench
