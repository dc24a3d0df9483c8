// Computes attention over keys and values that are dequantized. The f32 kernel merges its partial results.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/dequantized_rows.hpp"

namespace {

// Codes is what a level does with codes (isa/<level>/codes.hpp).
template <class Codes>
void attention_dequantizing(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                            void *workspace) {
  attention_of_tasks<FloatWays<TransposingProducts<float, DequantizedRuns<Codes>>,
                               BroadcastProducts<DequantizedBlock<Codes>>>>(call, first, last, workspace);
}

}  // namespace
