// Helps to benchmark attention on 8- and 16-bit tensors: calls rapt or a peer, and measures the error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "support/attention.hpp"
#include "support/buffer.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// Holds the tensors of a call, and calls rapt: for all of it, or for one of the two steps of split keys. A class that
// derives from it sets the options, and then calls prepare().
template <class Q, class KeyValue>
struct TypedAttention {
  TypedAttention(const AttentionShape &shape, Buffer<Q> queries, Buffer<KeyValue> keys,
                 Buffer<KeyValue> values)
      : shape(shape),
        q(std::move(queries)),
        k(std::move(keys)),
        v(std::move(values)),
        out(shape.q_heads * shape.q_len * shape.v_dim),
        options(attention_options<float>(shape)) {}
  // `run`: all keys by a list, in runs of so many that follow each other in the cache. 0: without a list.
  void prepare(std::size_t run = 0) {
    if (run > 0) {
      list = scattered_keys(shape.kv_len, run);
      list_keys(options, list);
    }
    std::size_t bytes = 0, length = 0;
    require_ok(rapt_attention_workspace(&options, &bytes));
    workspace = Buffer<unsigned char>(bytes);
    require_ok(rapt_attention_partial_tasks(&options, &partial_tasks, &length));
    partials = Buffer<float>(length);
    require_ok(rapt_attention_tasks(&options, &tasks));
  }
  void whole() const {
    require_ok(rapt_attention(q.data(), k.data(), v.data(), out.data(), &options, workspace.data(),
                              workspace.size()));
  }
  void partial() const {
    require_ok(rapt_attention_partial(q.data(), k.data(), v.data(), partials.data(), &options, 0,
                                      partial_tasks, workspace.data(), workspace.size()));
  }
  void merge() const {
    require_ok(rapt_attention_merge(partials.data(), out.data(), &options, 0, tasks, workspace.data(),
                                    workspace.size()));
  }

  AttentionShape shape;
  Buffer<Q> q;
  Buffer<KeyValue> k, v;
  Buffer<Q> out;
  std::vector<std::int32_t> list;
  rapt_attention_options options;
  Buffer<unsigned char> workspace{0};
  Buffer<float> partials{0};
  std::size_t tasks = 0, partial_tasks = 0;
};

// Holds either a member function of Buffers, which calls rapt, or a peer's attention function.
template <class Buffers, class OfPeer>
struct AttentionPart {
  void (Buffers::*own)() const = nullptr;
  OfPeer of_peer = nullptr;

  explicit operator bool() const { return own || of_peer; }
  void operator()(const Buffers &buffers) const {
    if (own) {
      (buffers.*own)();
    } else {
      of_peer(buffers.problem());
    }
  }
};

// Returns the larger of the errors of one decoded token and one prompt. error_of(shape) computes the
// attention and returns its error.
template <class ErrorOf>
double worst_attention_error(const ErrorOf &error_of) {
  return std::max<double>(error_of(token_shape(4, 2, 1000, 64, 64)),
                          error_of(prompt_shape(1, 1, 128, 64, 64, false)));
}

}  // namespace rapt::bench
