// The shared body of attention in bf16 arithmetic.
#pragma once

#include "kernels/attention/attention_in_bf16.hpp"

#define RAPT_FAMILY_attention_in_bf16(kernel) kernel
#include "kernels/part.hpp"

namespace {

// Rows is the level's class that multiplies tiles of few rows (Bf16Ways), such as BfmlalRows.
template <class Rows>
inline constexpr auto attention_of_bf16 =
    attention_in_bf16<rapt::BF16, Bf16Ways<K32RowProducts<Rows>, K32Products>>;

}  // namespace
