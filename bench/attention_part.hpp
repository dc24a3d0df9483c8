// Calls a part of rapt's attention over narrow tensors, or a peer's whole attention, and judges it.
#pragma once

#include <algorithm>

#include "support/attention.hpp"

namespace rapt::bench {

// Has either a part of rapt's attention, which is a function of the buffers, or a peer's attention.
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

// Returns the larger error of a decoded token and a prompt. error_of(shape) makes the call and judges it.
template <class ErrorOf>
double worst_attention_error(const ErrorOf &error_of) {
  return std::max<double>(error_of(token_shape(4, 2, 1000, 64, 64)),
                          error_of(prompt_shape(1, 1, 128, 64, 64, false)));
}

}  // namespace rapt::bench
