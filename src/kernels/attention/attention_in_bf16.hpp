// Computes attention in bf16 arithmetic. The f32 kernel merges its partial results.
#pragma once

#include <cstddef>

#include "kernels/attention/attention.hpp"
#include "kernels/attention/k32_products.hpp"
#include "kernels/attention/k32_row_products.hpp"
#include "kernels/attention/ways.hpp"

namespace {

template <class E, class WaysOfE = Bf16Ways<K32RowProducts<K32Rows>, K32Products>>
void attention_in_bf16(const rapt::AttentionCall *call, std::size_t first, std::size_t last,
                       void *workspace) {
  attention_of_tasks<WaysOfE>(call, first, last, workspace);
}

}  // namespace
