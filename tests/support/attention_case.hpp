// Runs one problem of attention through the public API. The layout says where the memory is and how the work
// is cut into calls.
#pragma once

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

enum class AttentionStage {
  whole,    // gives out and the log-sum-exp
  partial,  // gives the partial results
  merge,    // gives what `whole` gives, from partial results
};

// The outcome has [q_len][batch][q_heads] results. Queries that a sequence does not have are 0. T is the type
// of keys and values; the problem may have other types of queries and outputs. Defined for all element types.
template <class T>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage,
                      rapt_arithmetic arithmetic = RAPT_ARITHMETIC_DEFAULT);

}  // namespace rapt::test
