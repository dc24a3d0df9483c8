#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "attention_bench.hpp"

namespace rapt::bench {
namespace {

constexpr std::size_t heads = 8;

std::string size_of(const AttentionShape &shape) {
  const std::string v_dim = shape.v_dim == shape.qk_dim ? "" : fmt::format("v{}", shape.v_dim);
  return fmt::format("prefill:d{}{}:t{}{}", shape.qk_dim, v_dim, shape.q_len, shape.causal ? ":causal" : "");
}

// Lists options that are measured only for rapt. add_option() appends the option to the name of the size
// without it, so the tables can compare both sizes.
enum class Option { softcap, bias, mask, alibi, sinks };

template <class T>
void add_option(Kernel<Attention<T>> &kernel, const AttentionShape &shape, const char *name, Option option) {
  const std::size_t cells = shape.q_len * shape.kv_len;
  Work work = attention_work(shape, sizeof(T));
  if (option == Option::bias) work.read += cells * sizeof(T);
  if (option == Option::mask) work.read += cells;
  const auto make = [shape, option, cells] {
    // All heads share one bias or mask. The mask excludes only every eighth key, so rapt cannot skip whole
    // blocks of keys.
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
  kernel.add(size_of(shape) + ":" + name, work, make, By::rapt_alone);
}

template <class T>
void add_options(Kernel<Attention<T>> &kernel, const AttentionShape &shape) {
  add_option(kernel, shape, "softcap", Option::softcap);
  add_option(kernel, shape, "bias", Option::bias);
  add_option(kernel, shape, "mask", Option::mask);
  add_option(kernel, shape, "alibi", Option::alibi);
  add_option(kernel, shape, "sinks", Option::sinks);
}

}  // namespace

template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel) {
  const Suite &suite = kernel.suite();
  constexpr bool f32 = sizeof(T) == sizeof(float);
  const auto add = [&kernel](std::size_t tokens, std::size_t qk_dim, std::size_t v_dim, bool causal) {
    const AttentionShape shape = prompt_shape(heads, heads, tokens, qk_dim, v_dim, causal);
    add_attention(kernel, size_of(shape), shape);
  };

  if (suite.plan().quick) {
    for (const std::size_t tokens : Sizes{128, 512}) {
      add(tokens, 64, 64, false);
      add(tokens, 64, 64, true);
    }
    if (!f32) return;
    add(512, 80, 80, true);
    add(1024, 128, 128, false);
    add(1024, 128, 128, true);
    return;
  }

  // f64 is half as fast, so the longest contexts are measured only for f32.
  Sizes all_tokens = {128, 512, 1024, 2048};
  if (f32) all_tokens.push_back(4096);
  for (const std::size_t dim : Sizes{64, 128}) {
    for (const bool causal : {false, true}) {
      for (const std::size_t tokens : all_tokens) add(tokens, dim, dim, causal);
    }
  }
  // Some models have these head dimensions. 75 is not a multiple of any vector's lane count.
  for (const std::size_t dim : Sizes{80, 96, 100, 112, 192, 256}) add(512, dim, dim, true);
  add(512, 75, 75, true);
  add(512, 192, 128, true);
  add(512, 576, 512, true);
  add_options(kernel, prompt_shape(heads, heads, 1024, 64, 64, false));
  if (!f32) return;

  // This long context has only one head, because a call takes about a second.
  add_attention(kernel, "prefill:1x1:d64:t32768:causal", prompt_shape(1, 1, 32768, 64, 64, true));

  // A window of 512 keys in a long context should take about as long as a call with only 512 keys.
  AttentionShape window = prompt_shape(heads, heads, 16384, 64, 64, true);
  window.window = 512;
  add_attention(kernel, "prefill:d64:t16384:window512", window);
  AttentionShape its_keys = window;
  its_keys.kv_len = 512;
  its_keys.causal = false;
  its_keys.window = 0;
  add_attention(kernel, "prefill:d64:t16384:k512", its_keys);
}

template void add_attention_prefill<float>(Kernel<Attention<float>> &);
template void add_attention_prefill<double>(Kernel<Attention<double>> &);

}  // namespace rapt::bench
