// Runs one problem of attention's gradient through the public API. The layout says where the arrays are and
// how the work is split into calls.
#pragma once

#include "oracle/attention.hpp"
#include "support/problem.hpp"

namespace rapt::test {

// Says which optional gradients a problem asks for.
struct WantedGradients {
  bool dbias = false, dsinks = false;
};
template <class T>
WantedGradients wanted_gradients(const Problem &problem, const oracle::Attention<T> &a) {
  return {!a.bias.empty() && a.q_len > 0 && problem.seed % 5 != 0, !a.sinks.empty() && problem.seed % 3 != 0};
}

// The outcome is dq [batch][q_heads][q_len], dk and dv [batch][kv_heads][kv_len], then dbias (in the shape of
// the bias) and dsinks if the problem asks for them. Queries and keys that a sequence lacks have gradients of
// 0. Defined for float, double, F16 and BF16. dbias and dsinks have type Number<T>, the others type T.
template <class T>
Outcome run_attention_backward(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
