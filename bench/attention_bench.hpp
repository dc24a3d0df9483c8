// Declares functions that add attention benchmarks.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/attention.hpp"

namespace rapt::bench {

// Adds prompts, which have as many queries as keys: without options, with options, and with a window.
template <class T>
void add_attention_prefill(Kernel<Attention<T>> &kernel);
// Adds decoding: calls with one query or a few queries at the end of a long context.
template <class T>
void add_attention_decode(Kernel<Attention<T>> &kernel);
// Adds tensors with the layout [token][head][dim], and sequences of different lengths.
template <class T>
void add_attention_layouts(Kernel<Attention<T>> &kernel);
// Returns the name of a decode shape, such as "decode:32x8:d128:k4096", or with some queries
// "decode:8x8:d128:q4:k4096".
std::string decode_size(const AttentionShape &shape);
// The same with a list of all keys in runs of `run`, such as "decode:32x8:d128:k4096:list64".
std::string listed_size(const AttentionShape &shape, std::size_t run);
// Returns shapes in which all types are compared: 2 to 64 drafts over a long context, and heads of 72 to 112
// dimensions, of which those of `multiple` are taken.
std::vector<AttentionShape> compared_shapes(std::size_t multiple);

// Adds one shape for rapt and for all peers.
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
