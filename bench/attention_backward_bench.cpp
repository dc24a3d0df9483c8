// attention_backward: which shapes are measured.
#include <string>
#include <vector>

#include "support/attention_backward.hpp"

namespace rapt::bench {
namespace {

template <class T>
void register_backward(Suite &suite) {
  Kernel<AttentionBackward<T>> kernel = suite.kernel<AttentionBackward<T>>(
      whole_attention_backward<T>,
      [] {
        if constexpr (sizeof(T) == sizeof(float)) {
          return &Peer::attention_backward_f32;
        } else {
          return &Peer::attention_backward_f64;
        }
      }(),
      attention_backward_error<T>, 1);
  const auto add = [&](std::size_t tokens, std::size_t dim, bool causal) {
    const AttentionShape shape = {.q_heads = 4,
                                  .kv_heads = 4,
                                  .q_len = tokens,
                                  .kv_len = tokens,
                                  .qk_dim = dim,
                                  .v_dim = dim,
                                  .causal = causal};
    std::string size = "d";
    size.append(std::to_string(dim)).append(":t").append(std::to_string(tokens));
    if (causal) size.append(":causal");
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
  std::vector<std::size_t> all_tokens = {128, 512, 1024};
  if (f32) all_tokens.insert(all_tokens.end(), {2048, 4096});
  for (const std::size_t dim : {64, 128}) {
    for (const bool causal : {false, true}) {
      for (const std::size_t tokens : all_tokens) add(tokens, dim, causal);
    }
  }
}

}  // namespace

void register_attention_backward_f32(Suite &suite) { register_backward<float>(suite); }
void register_attention_backward_f64(Suite &suite) { register_backward<double>(suite); }

}  // namespace rapt::bench
