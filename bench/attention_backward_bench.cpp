// attention_backward: which shapes are measured.
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
  const auto add = [&](std::size_t tokens, std::size_t dim, bool causal) {
    const AttentionShape shape = prompt_shape(4, 4, tokens, dim, dim, causal);
    const std::string size = fmt::format("d{}:t{}{}", dim, tokens, causal ? ":causal" : "");
    kernel.add(size, attention_backward_work(shape, sizeof(T)), [shape] {
      return [buffers = AttentionGradientBuffers<T>(shape)](AttentionBackward<T> backward) {
        backward(buffers.problem());
      };
    });
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
}

}  // namespace

void register_attention_backward_f32(Suite &suite) { register_attention_backward<float>(suite); }
void register_attention_backward_f64(Suite &suite) { register_attention_backward<double>(suite); }

}  // namespace rapt::bench
