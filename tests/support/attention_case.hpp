// Attention's driver: one problem through the public API, in any layout of its memory and cut of its work.
#pragma once

#include "support/problem.hpp"

namespace rapt::test {

enum class AttentionStage {
  whole,    // the outcome is out and the log-sum-exp
  partial,  // the outcome is the partial results
  merge,    // as `whole`, by way of partial results
};

// The results of all heads of a query of the batch stand together; those of a query that a sequence does not
// have are 0. Defined for float and double.
template <class T>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage);

}  // namespace rapt::test
