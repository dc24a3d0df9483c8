// The benchmarks of attention, in two files.
#pragma once

#include "support/attention.hpp"

namespace rapt::bench {

// As many queries as keys, or a long context in a window; options; models' prompts.
template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel);
// A token at a time.
template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel);

// A shape, by everyone. The size names it.
template <class T>
void add_attention(Kernel<Attention<T>> &kernel, const std::string &size, const AttentionShape &shape,
                   bool with_sinks = false) {
  kernel.add(size, attention_work(shape, sizeof(T)), [shape, with_sinks] {
    return [buffers = AttentionBuffers<T>(shape, with_sinks)](Attention<T> attention) {
      attention(buffers.problem());
    };
  });
}

}  // namespace rapt::bench
