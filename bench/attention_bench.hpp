// Declares the functions that add attention benchmarks. Prompts, decoded tokens and layouts are in separate
// files.
#pragma once

#include <string>

#include "support/attention.hpp"

namespace rapt::bench {

// Adds prompts, which have as many queries as keys: plain, with options, and a long context with a window.
template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel);
// Adds calls with one or a few tokens after a context.
template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel);
// Adds tensors that are stored by token, and sequences of different lengths.
template <class T>
void add_attention_layouts(Kernel<Attention<T>> &kernel);
// Returns the name of a size, such as "decode:32x8:d128:k4096".
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
