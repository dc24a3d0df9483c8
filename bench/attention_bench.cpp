// Benchmarks attention, and the two steps of attention with split keys: the partial step and the merge step.
#include "attention_bench.hpp"

#include <string>
#include <string_view>
#include <utility>

#include "support/accuracy.hpp"

namespace rapt::bench {
namespace {

struct Model {
  const char *name;
  std::size_t q_heads, kv_heads, qk_dim, v_dim;
  std::size_t context;  // keys in the decode shape
  std::size_t window = 0;
  double softcap = 0;
  bool sinks = false;
};

constexpr Model models[] = {
    {"gpt2", 12, 12, 64, 64, 1024},
    {"llama-3-8b", 32, 8, 128, 128, 8192},
    {"gemma-2-9b", 16, 8, 256, 256, 8192, 4096, 50},
    {"gpt-oss", 64, 8, 64, 64, 8192, 128, 0, true},
    {"deepseek-v2-lite", 16, 16, 192, 128, 4096},
};
constexpr std::string_view quick_model = "llama-3-8b";

// Adds the attention of one layer of each known model.
template <class T>
void add_models(Kernel<Attention<T>> &kernel) {
  const bool quick = kernel.suite().plan().quick;
  for (const Model &model : models) {
    const std::string name = model.name;
    if (quick && name != quick_model) continue;
    const auto add = [&](const char *phase, AttentionShape shape) {
      shape.window = model.window;
      shape.softcap = model.softcap;
      add_attention(kernel, name + phase, shape, model.sinks);
    };
    if (!quick) {
      add(":prefill", prompt_shape(model.q_heads, model.kv_heads, 1024, model.qk_dim, model.v_dim, true));
    }
    add(":decode", token_shape(model.q_heads, model.kv_heads, model.context, model.qk_dim, model.v_dim));
  }
}

// ---- split keys, for few queries and many keys ----

template <class T>
struct Split {
  explicit Split(const AttentionShape &shape) : buffers(shape), partials(attention_partials(shape)) {}

  AttentionBuffers<T> buffers;
  Buffer<T> partials;
};

template <class T>
using Step = void (*)(const AttentionProblem<T> &problem, T *partials);

// Registers the merge step if `merges`, else the partial step. The partial step reads all keys and values and
// writes partial results. The merge step reads the partial results.
template <class T>
void register_step(Suite &suite, Step<T> step, bool merges) {
  Kernel<Step<T>> kernel = suite.kernel(step, 1);
  const auto add = [&](std::size_t q_heads, std::size_t keys) {
    const AttentionShape shape = token_shape(q_heads, 8, keys, 128, 128);
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
    kernel.add(decode_size(shape), work, [shape] {
      Split<T> split(shape);
      partial_attention<T>(split.buffers.problem(), split.partials.data());  // the merge step reads them
      return [split = std::move(split)](Step<T> one) { one(split.buffers.problem(), split.partials.data()); };
    });
  };
  for (const std::size_t q_heads : suite.sizes({8, 32}, {32})) {
    for (const std::size_t keys : suite.sizes({4096, 32768}, {4096})) add(q_heads, keys);
  }
}

template <class T>
void register_attention(Suite &suite) {
  Kernel<Attention<T>> kernel =
      suite.kernel(whole_attention<T>, &PeerFunctions<T>::attention, attention_error<T>, 1);
  add_attention_prefill(kernel);
  add_attention_decode(kernel);
  if constexpr (sizeof(T) == sizeof(float)) {
    add_attention_layouts(kernel);
    add_models(kernel);
  }
}

}  // namespace

void register_attention_f32(Suite &suite) { register_attention<float>(suite); }
void register_attention_f64(Suite &suite) { register_attention<double>(suite); }
void register_attention_partial_f32(Suite &suite) {
  register_step<float>(suite, partial_attention<float>, false);
}
void register_attention_partial_f64(Suite &suite) {
  if (!suite.plan().quick) register_step<double>(suite, partial_attention<double>, false);
}
void register_attention_merge_f32(Suite &suite) { register_step<float>(suite, merge_attention<float>, true); }
void register_attention_merge_f64(Suite &suite) {
  if (!suite.plan().quick) register_step<double>(suite, merge_attention<double>, true);
}

}  // namespace rapt::bench
