// Calls attention forwards and backwards over contiguous arrays, with workspaces of exactly the required
// size.
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "rapt/rapt.h"
#include "support/guarded_buffer.hpp"

namespace rapt::test {

using WorkspaceQuery = rapt_status (*)(const rapt_attention_options *, std::size_t *);

inline std::vector<unsigned char> workspace_for(const rapt_attention_options &options,
                                                WorkspaceQuery query = rapt_attention_workspace) {
  std::size_t bytes = 0;
  REQUIRE(query(&options, &bytes) == RAPT_OK);
  return std::vector<unsigned char>(bytes, canary);
}

template <class T>
struct AttentionResults {
  std::vector<T> out, lse, dq, dk, dv, dbias, dsinks;
};

// Fills results.out and results.lse, whose sizes the caller has set. Points options.lse to results.lse.
template <class T>
void run_attention(const std::vector<T> &q, const std::vector<T> &k, const std::vector<T> &v,
                   rapt_attention_options &options, AttentionResults<T> &results) {
  options.lse = results.lse.data();
  std::vector<unsigned char> workspace = workspace_for(options);
  REQUIRE(rapt_attention(q.data(), k.data(), v.data(), results.out.data(), &options, workspace.data(),
                         workspace.size()) == RAPT_OK);
}

template <class T>
rapt_attention_gradients gradients_of(AttentionResults<T> &results, const std::vector<T> &dout) {
  rapt_attention_gradients g = RAPT_ATTENTION_GRADIENTS_INIT;
  g.out = results.out.data();
  g.dout = dout.data();
  g.dq = results.dq.data();
  g.dk = results.dk.data();
  g.dv = results.dv.data();
  return g;
}

// Computes the gradients after run_attention(). Skips dbias or dsinks if it is empty; otherwise the caller
// has set its size. Fills dq, dk and dv with `fill` before the call.
template <class T>
void run_attention_backward(const std::vector<T> &q, const std::vector<T> &k, const std::vector<T> &v,
                            const std::vector<T> &dout, const rapt_attention_options &options, T fill,
                            AttentionResults<T> &results) {
  results.dq.assign(q.size(), fill);
  results.dk.assign(k.size(), fill);
  results.dv.assign(v.size(), fill);
  rapt_attention_gradients g = gradients_of(results, dout);
  if (!results.dbias.empty()) g.dbias = results.dbias.data();
  if (!results.dsinks.empty()) g.dsinks = results.dsinks.data();
  std::vector<unsigned char> workspace = workspace_for(options, rapt_attention_backward_workspace);
  REQUIRE(rapt_attention_backward(q.data(), k.data(), v.data(), &options, &g, workspace.data(),
                                  workspace.size()) == RAPT_OK);
}

}  // namespace rapt::test
