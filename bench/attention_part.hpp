// Helps to benchmark attention on 8- and 16-bit tensors: calls rapt or a peer, and measures the error.
#pragma once

#include <algorithm>

#include "support/attention.hpp"

namespace rapt::bench {

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
