// attention over int8 keys and values with scales. It is compared only with limits; the tests check its
// accuracy.
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "attention_bench.hpp"
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
Buffer<float> scales(std::size_t n) {
  Buffer<float> made(n);
  Uniform uniform;
  for (float &scale : made.elements()) scale = static_cast<float>((1 + uniform()) / 64);
  return made;
}

struct Int8Attention {
  Int8Attention(const AttentionShape &shape, bool packed, std::size_t group)
      : q(logits<float>(shape.q_heads * shape.q_len * shape.qk_dim, 0, 0)),
        k(bytes(shape.kv_heads * (shape.kv_len + 63) / 64 * 64 * shape.qk_dim)),
        v(bytes(shape.kv_heads * shape.kv_len * shape.v_dim)),
        k_scales(scales(shape.kv_heads * shape.kv_len * groups(shape.qk_dim, group))),
        v_scales(scales(shape.kv_heads * shape.kv_len * groups(shape.v_dim, group))),
        out(shape.q_heads * shape.q_len * shape.v_dim),
        options(attention_options<float>(shape)),
        workspace(workspace_bytes(packed, group)) {
    options.k_scales = k_scales.data();
    options.v_scales = v_scales.data();
    std::size_t length = 0;
    require_ok(rapt_attention_partial_tasks(&options, &partial_tasks, &length));
    partials = Buffer<float>(length);
    require_ok(rapt_attention_tasks(&options, &tasks));
  }
  static std::size_t groups(std::size_t dim, std::size_t group) { return group == 0 ? 1 : dim / group; }
  std::size_t workspace_bytes(bool packed, std::size_t group) {
    options.kv_type = RAPT_I8;
    options.packed_keys = packed;
    options.scale_group = group;
    std::size_t bytes = 0;
    require_ok(rapt_attention_workspace(&options, &bytes));
    return bytes;
  }
  void whole() const {
    require_ok(rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(),
                              workspace.size()));
  }
  void partial() const {
    require_ok(rapt_attention_partial(q.data(), k.data(), v.data(), partials.data(), &options, 0,
                                      partial_tasks, workspace.data(), workspace.size()));
  }
  void merge() const {
    require_ok(rapt_attention_merge(partials.data(), out.data(), &options, 0, tasks, workspace.data(),
                                    workspace.size()));
  }

  Buffer<float> q;
  Buffer<std::int8_t> k, v;
  Buffer<float> k_scales, v_scales, out;
  rapt_attention_options options;
  Buffer<unsigned char> workspace;
  Buffer<float> partials{0};
  std::size_t tasks = 0, partial_tasks = 0;
};

using Part = void (Int8Attention::*)() const;

void add_part(Suite &suite, Part part, bool is_whole) {
  Kernel<Part> kernel = suite.kernel(part, 1);
  const auto add = [&](const std::string &size, const AttentionShape &shape, bool packed = false,
                       std::size_t group = 0) {
    Work work = attention_work(shape, 1);
    work.element_bytes = sizeof(float);
    work.by_tiles = shape.q_len > 1;
    work.read += shape.kv_heads * shape.kv_len * sizeof(float) *
                 (Int8Attention::groups(shape.qk_dim, group) + Int8Attention::groups(shape.v_dim, group));
    kernel.add(size, work, [=] {
      Int8Attention buffers(shape, packed, group);
      buffers.partial();  // for the merge to read
      return [buffers = std::move(buffers)](Part one) { (buffers.*one)(); };
    });
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
      }
    }
    if (!is_whole) continue;
    AttentionShape shape = prompt_shape(1, 1, 1024, dim, dim, false);
    const std::string prefill = "prefill:d" + std::to_string(dim) + ":t1024";
    add(prefill, shape);
    add_groups(prefill, shape);
    for (const std::size_t queries : suite.sizes({2, 8, 16}, {})) {
      shape = token_shape(8, 8, 4096, dim, dim);
      shape.q_len = queries;
      const std::string size = fmt::format("decode:8x8:d{}:q{}:k4096", dim, queries);
      add(size, shape);
      add_groups(size, shape);
    }
  }
}

}  // namespace

void register_attention_i8(Suite &suite) { add_part(suite, &Int8Attention::whole, true); }
void register_attention_partial_i8(Suite &suite) {
  if (!suite.plan().quick) add_part(suite, &Int8Attention::partial, false);
}
void register_attention_merge_i8(Suite &suite) {
  if (!suite.plan().quick) add_part(suite, &Int8Attention::merge, false);
}

}  // namespace rapt::bench
