// The driver of attention's gradient: one problem through the public API, in any layout of its memory and cut
// of its work.
#pragma once

#include "oracle/attention.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Which of the gradients that may be left out a problem asks for.
struct WantedGradients {
  bool dbias = false, dsinks = false;
};
template <class T>
WantedGradients wanted_gradients(const Problem &problem, const oracle::Attention<T> &a) {
  return {!a.bias.empty() && a.q_len > 0 && problem.seed % 5 != 0, !a.sinks.empty() && problem.seed % 3 != 0};
}

// The outcome is dq [batch][q_heads][q_len], dk and dv [batch][kv_heads][kv_len], then dbias as the bias is
// and dsinks where they are wanted; 0 for queries and keys that a sequence does not have. Defined for float
// and double.
template <class T>
Outcome run_attention_backward(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
