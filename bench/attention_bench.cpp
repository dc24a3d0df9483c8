// attention, and its split over keys: which shapes are measured.
#include "attention_bench.hpp"

#include <string>

#include "support/accuracy.hpp"

namespace rapt::bench {
namespace {

struct Model {
  const char *name;
  std::size_t q_heads, kv_heads, qk_dim, v_dim;
  std::size_t prompt, context;  // tokens of the prefill; keys of the decode
  std::size_t window = 0;
  double softcap = 0;
  bool sinks = false;
  bool quick = false;
};

constexpr Model models[] = {
    {.name = "gpt2",
     .q_heads = 12,
     .kv_heads = 12,
     .qk_dim = 64,
     .v_dim = 64,
     .prompt = 1024,
     .context = 1024},
    {.name = "llama-3-8b",
     .q_heads = 32,
     .kv_heads = 8,
     .qk_dim = 128,
     .v_dim = 128,
     .prompt = 1024,
     .context = 8192,
     .quick = true},
    {.name = "gemma-2-9b",
     .q_heads = 16,
     .kv_heads = 8,
     .qk_dim = 256,
     .v_dim = 256,
     .prompt = 1024,
     .context = 8192,
     .window = 4096,
     .softcap = 50},
    {.name = "gpt-oss",
     .q_heads = 64,
     .kv_heads = 8,
     .qk_dim = 64,
     .v_dim = 64,
     .prompt = 1024,
     .context = 8192,
     .window = 128,
     .sinks = true},
    {.name = "deepseek-v2-lite",
     .q_heads = 16,
     .kv_heads = 16,
     .qk_dim = 192,
     .v_dim = 128,
     .prompt = 1024,
     .context = 4096},
};

// The attention of a layer.
template <class T>
void add_models(Kernel<Attention<T>> &kernel) {
  for (const Model &model : models) {
    if (kernel.suite().plan().quick && !model.quick) continue;
    AttentionShape shape = {.q_heads = model.q_heads,
                            .kv_heads = model.kv_heads,
                            .q_len = model.prompt,
                            .kv_len = model.prompt,
                            .qk_dim = model.qk_dim,
                            .v_dim = model.v_dim,
                            .causal = true,
                            .window = model.window,
                            .softcap = model.softcap};
    const std::string name = model.name;
    if (!kernel.suite().plan().quick) add_attention(kernel, name + ":prefill", shape, model.sinks);
    shape.q_len = 1;
    shape.kv_len = model.context;
    add_attention(kernel, name + ":decode", shape, model.sinks);
  }
}

// ---- keys in chunks, for few queries and many keys ----

template <class T>
struct Split {
  explicit Split(const AttentionShape &shape) : buffers(shape), partials(attention_partials(shape)) {}

  AttentionBuffers<T> buffers;
  Buffer<T> partials;
};

AttentionShape long_context(std::size_t q_heads, std::size_t keys) {
  return {.q_heads = q_heads,
          .kv_heads = 8,
          .q_len = 1,
          .kv_len = keys,
          .qk_dim = 128,
          .v_dim = 128,
          .causal = true};
}

template <class T>
using Step = void (*)(const AttentionProblem<T> &problem, T *partials);

// partial is told from merge by what it goes through: all keys and values, or the partial results alone.
template <class T, Step<T> step>
void register_step(Suite &suite, bool merges) {
  Kernel<Step<T>> kernel = suite.kernel<Step<T>>(
      step, nullptr, [](Step<T>) { return attention_error<T>(split_attention<T>); }, 1);
  const auto add = [&](std::size_t q_heads, std::size_t keys) {
    const AttentionShape shape = long_context(q_heads, keys);
    const std::size_t partials = attention_partials(shape);
    Work work = attention_work(shape, sizeof(T));
    if (merges) {
      work = {.elements = partials,
              .element_bytes = sizeof(T),
              .read = partials * sizeof(T),
              .written = work.written};
    } else {
      work.written = partials * sizeof(T);
    }
    const std::string size = "decode:" + std::to_string(q_heads) + "x8:d128:k" + std::to_string(keys);
    kernel.add(size, work, [shape] {
      Split<T> split(shape);
      partial_attention<T>(split.buffers.problem(), split.partials.data());  // merge needs numbers to merge
      return [split = std::move(split)](Step<T> one) { one(split.buffers.problem(), split.partials.data()); };
    });
  };
  for (const std::size_t q_heads : suite.sizes<std::size_t>({8, 32}, {32})) {
    for (const std::size_t keys : suite.sizes<std::size_t>({4096, 32768}, {4096})) add(q_heads, keys);
  }
}

template <class T>
void register_attention(Kernel<Attention<T>> kernel) {
  add_attention_prefill(kernel);
  add_attention_decode(kernel);
  if (sizeof(T) == sizeof(float)) add_models(kernel);
}

}  // namespace

void register_attention_f32(Suite &suite) {
  register_attention<float>(
      suite.kernel(whole_attention<float>, &Peer::attention_f32, attention_error<float>, 1));
}
void register_attention_f64(Suite &suite) {
  register_attention<double>(
      suite.kernel(whole_attention<double>, &Peer::attention_f64, attention_error<double>, 1));
}
void register_attention_partial_f32(Suite &suite) {
  register_step<float, partial_attention<float>>(suite, false);
}
void register_attention_partial_f64(Suite &suite) {
  if (!suite.plan().quick) register_step<double, partial_attention<double>>(suite, false);
}
void register_attention_merge_f32(Suite &suite) { register_step<float, merge_attention<float>>(suite, true); }
void register_attention_merge_f64(Suite &suite) {
  if (!suite.plan().quick) register_step<double, merge_attention<double>>(suite, true);
}

}  // namespace rapt::bench
