#include <cstdint>
#include <string>
#include <vector>

#include "attention_bench.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t heads = 8;

AttentionShape square(std::size_t tokens, std::size_t qk_dim, std::size_t v_dim, bool causal) {
  return {.q_heads = heads,
          .kv_heads = heads,
          .q_len = tokens,
          .kv_len = tokens,
          .qk_dim = qk_dim,
          .v_dim = v_dim,
          .causal = causal};
}

std::string size_of(std::size_t tokens, std::size_t qk_dim, std::size_t v_dim, bool causal) {
  std::string size = "prefill:d";
  size.append(std::to_string(qk_dim));
  if (v_dim != qk_dim) size.append("v").append(std::to_string(v_dim));
  size.append(":t").append(std::to_string(tokens));
  return size.append(causal ? ":causal" : "");
}

// What rapt alone has, at the cost that it adds to the plain shape.
enum class Option { softcap, bias, mask, alibi, sinks };

template <class T>
void add_option(Kernel<Attention<T>> &kernel, const std::string &plain, const AttentionShape &shape,
                const char *name, Option option) {
  const std::size_t cells = shape.q_len * shape.kv_len;
  Work work = attention_work(shape, sizeof(T));
  if (option == Option::bias) work.read += cells * sizeof(T);
  if (option == Option::mask) work.read += cells;
  const auto make = [shape, option, cells] {
    // One matrix for all heads. The mask hides every eighth key, so that no range of keys falls away whole.
    Buffer<T> bias = logits<T>(option == Option::bias ? cells : 0, 0, 4);
    Buffer<std::uint8_t> mask(option == Option::mask ? cells : 0);
    for (std::size_t i = 0; i < mask.size(); ++i) mask.data()[i] = i % 8 != 7;
    return [shape, option, bias = std::move(bias), mask = std::move(mask),
            slopes = uniform<T>(shape.q_heads, 0.01, 0.5), sinks = logits<T>(shape.q_heads),
            buffers = AttentionBuffers<T>(shape)](Attention<T>) {
      rapt_attention_options options = attention_options<T>(shape);
      const auto row = static_cast<std::ptrdiff_t>(shape.kv_len);
      switch (option) {
        case Option::softcap:
          options.softcap = 50;
          break;
        case Option::bias:
          options.bias = bias.data();
          options.bias_strides = {RAPT_REPEAT, RAPT_REPEAT, row};
          break;
        case Option::mask:
          options.mask = mask.data();
          options.mask_strides = {RAPT_REPEAT, RAPT_REPEAT, row};
          break;
        case Option::alibi:
          options.alibi_slopes = slopes.data();
          break;
        case Option::sinks:
          options.sinks = sinks.data();
          break;
      }
      buffers.attention(options);
    };
  };
  kernel.add(plain + ":" + name, work, make, Kernel<Attention<T>>::By::rapt_alone);
}

template <class T>
void add_options(Kernel<Attention<T>> &kernel, std::size_t tokens) {
  const std::string plain = size_of(tokens, 64, 64, false);
  const AttentionShape shape = square(tokens, 64, 64, false);
  add_option(kernel, plain, shape, "softcap", Option::softcap);
  add_option(kernel, plain, shape, "bias", Option::bias);
  add_option(kernel, plain, shape, "mask", Option::mask);
  add_option(kernel, plain, shape, "alibi", Option::alibi);
  add_option(kernel, plain, shape, "sinks", Option::sinks);
}

}  // namespace

template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel) {
  const Suite &suite = kernel.suite();
  constexpr bool f32 = sizeof(T) == sizeof(float);
  const auto add = [&kernel](std::size_t tokens, std::size_t qk_dim, std::size_t v_dim, bool causal) {
    add_attention(kernel, size_of(tokens, qk_dim, v_dim, causal), square(tokens, qk_dim, v_dim, causal));
  };

  if (suite.plan().quick) {
    for (const std::size_t tokens : {128, 512}) {
      add(tokens, 64, 64, false);
      add(tokens, 64, 64, true);
    }
    if (!f32) return;
    add(512, 80, 80, true);
    add(1024, 128, 128, false);
    add(1024, 128, 128, true);
    return;
  }

  // f64 is half as fast: of the longest contexts f32 says enough.
  std::vector<std::size_t> all_tokens = {128, 512, 1024, 2048};
  if (f32) all_tokens.push_back(4096);
  for (const std::size_t dim : {64, 128}) {
    for (const bool causal : {false, true}) {
      for (const std::size_t tokens : all_tokens) add(tokens, dim, dim, causal);
    }
  }
  // Dimensions of other models, and one that no register divides.
  for (const std::size_t dim : {80, 96, 100, 112, 192, 256}) add(512, dim, dim, true);
  add(512, 75, 75, true);
  add(512, 192, 128, true);
  add(512, 576, 512, true);
  add_options(kernel, 1024);
  if (!f32) return;

  // A window is to cost what its keys cost, however long the context is.
  AttentionShape window = square(16384, 64, 64, true);
  window.window = 512;
  add_attention(kernel, "prefill:d64:t16384:window512", window);
  AttentionShape beside = window;
  beside.kv_len = 512;
  beside.causal = false;
  beside.window = 0;
  add_attention(kernel, "prefill:d64:t16384:k512", beside);
}

template void add_attention_prefill<float>(Kernel<Attention<float>> &);
template void add_attention_prefill<double>(Kernel<Attention<double>> &);

}  // namespace rapt::bench
