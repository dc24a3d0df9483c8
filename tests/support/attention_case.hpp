// Runs one attention problem through the public API. The layout says where the arrays are and how the work is
// split into calls.
#pragma once

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

enum class AttentionStage {
  whole,    // computes out and the log-sum-exp
  partial,  // computes partial results for chunks of keys
  merge,    // computes what `whole` computes, from partial results
};

// The outcome has [q_len][batch][q_heads] results, with 0 for queries that a sequence lacks. T is the type of
// keys and values; the problem may have other query and output types. Defined for all element types.
template <class T>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage,
                      rapt_arithmetic arithmetic = RAPT_ARITHMETIC_DEFAULT);

}  // namespace rapt::test
