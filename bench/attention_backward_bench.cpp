// Benchmarks attention_backward.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "support/accuracy.hpp"
#include "support/attention_backward.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_attention_backward(Suite &suite) {
  Kernel<AttentionBackward<T>> kernel = suite.kernel(
      whole_attention_backward<T>, &PeerFunctions<T>::attention_backward, attention_backward_error<T>, 1);
  const auto add_shape = [&](const std::string &size, const AttentionShape &shape, By by) {
    const auto make = [shape] {
      return [buffers = AttentionGradientBuffers<T>(shape)](AttentionBackward<T> backward) {
        backward(buffers.problem());
      };
    };
    kernel.add(size, attention_backward_work(shape, sizeof(T)), make, by);
  };
  const auto add = [&](std::size_t tokens, std::size_t dim, bool causal) {
    add_shape(fmt::format("d{}:t{}{}", dim, tokens, causal ? ":causal" : ""),
              prompt_shape(4, 4, tokens, dim, dim, causal), By::everyone);
  };
  // Splits the tasks of a call into `runs` groups and executes the groups one after the other. The time shows
  // what splitting costs.
  const auto add_runs = [&](std::size_t kv_heads, std::size_t runs) {
    const AttentionShape shape = prompt_shape(32, kv_heads, 1024, 128, 128, true);
    const std::string size = fmt::format("32x{}:d128:t1024:causal:{}runs", kv_heads, runs);
    const auto make = [shape, runs] {
      return [runs, buffers = AttentionGradientBuffers<T>(shape)](AttentionBackward<T>) {
        const AttentionGradientProblem<T> problem = buffers.problem();
        for (std::size_t run = 0; run < runs; ++run)
          run_of_attention_backward(problem, run, runs, problem.scratch);
      };
    };
    kernel.add(size, attention_backward_work(shape, sizeof(T)), make, By::rapt_alone);
  };
  constexpr bool f32 = sizeof(T) == sizeof(float);
  if (suite.plan().quick) {
    add(512, 64, false);
    if (f32) add(512, 64, true);
    return;
  }
  Sizes all_tokens = {128, 512, 1024};
  if (f32) all_tokens.insert(all_tokens.end(), {2048, 4096});
  for (const std::size_t dim : Sizes{64, 128}) {
    for (const bool causal : {false, true}) {
      for (const std::size_t tokens : all_tokens) add(tokens, dim, causal);
    }
  }
  if (!f32) return;
  for (const std::size_t kv_heads : Sizes{8, 1}) {
    for (const std::size_t runs : Sizes{1, 2, 16, 64}) add_runs(kv_heads, runs);
  }
  // A window of 512 keys in a long context should take about as long as a call with only 512 keys.
  for (const std::size_t dim : Sizes{64, 128}) {
    AttentionShape window = prompt_shape(1, 1, 16384, dim, dim, true);
    window.window = 512;
    add_shape(fmt::format("d{}:t16384:window512", dim), window, By::rapt_alone);
    AttentionShape its_keys = prompt_shape(1, 1, 16384, dim, dim, false);
    its_keys.kv_len = 512;
    add_shape(fmt::format("d{}:t16384:k512", dim), its_keys, By::rapt_alone);
  }
}

}  // namespace

void register_attention_backward_f32(Suite &suite) { register_attention_backward<float>(suite); }
void register_attention_backward_f64(Suite &suite) { register_attention_backward<double>(suite); }

}  // namespace rapt::bench
