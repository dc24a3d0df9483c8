// Attention's driver: it runs one problem through the public API. The layout says where the memory lies and
// how the work is cut into calls.
#pragma once

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

enum class AttentionStage {
  whole,    // gives out and the log-sum-exp
  partial,  // gives the partial results
  merge,    // gives what `whole` gives, from partial results
};

// The outcome has [q_len][batch][q_heads] results. Queries that a sequence does not have are 0. Defined for
// all element types.
template <class T>
Outcome run_attention(const Problem &problem, const Layout &layout, AttentionStage stage,
                      rapt_arithmetic arithmetic = RAPT_ARITHMETIC_DEFAULT);

// Types of queries, of keys and values, and of outputs: each pair of different types is among them.
enum class ElementTypes {
  f32_f16_f32,
  f32_bf16_f16,
  f16_f16_f32,
  f16_bf16_f16,
  f16_f32_bf16,
  bf16_bf16_f32,
  bf16_f16_bf16,
  bf16_f32_f16,
};
template <>
inline constexpr auto names_of<ElementTypes> = std::to_array<const char *>({"f32_f16_f32", "f32_bf16_f16",
                                                                            "f16_f16_f32", "f16_bf16_f16",
                                                                            "f16_f32_bf16", "bf16_bf16_f32",
                                                                            "bf16_f16_bf16", "bf16_f32_f16"});

// The same for queries, keys and outputs of different types.
Outcome run_attention_of_types(ElementTypes types, const Problem &problem, const Layout &layout,
                               AttentionStage stage);

}  // namespace rapt::test
