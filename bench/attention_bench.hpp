// The benchmarks of attention: prompts in one file, single tokens in another.
#pragma once

#include <string>

#include "support/attention.hpp"

namespace rapt::bench {

// Prompts with as many queries as keys, with options too, and a long context in a window.
template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel);
// The next token after a context.
template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel);
// Keys and values by token, and sequences of different lengths.
template <class T>
void add_attention_layouts(Kernel<Attention<T>> &kernel);
// "decode:32x8:d128:k4096"
std::string decode_size(const AttentionShape &shape);

// Measures one shape with every implementation.
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
