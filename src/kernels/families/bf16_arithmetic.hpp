// Defines the attention kernel in bf16 arithmetic, for all instruction-set levels.
#pragma once

#include "kernels/attention/attention_in_bf16.hpp"

#define RAPT_FAMILY_attention_in_bf16(kernel) kernel
#include "kernels/part.hpp"

namespace {

// Rows is the level's class that multiplies few query rows (see Bf16Ways), such as BfmlalRows.
template <class Rows>
inline constexpr auto attention_of_bf16 =
    attention_in_bf16<rapt::BF16, Bf16Ways<K32RowProducts<Rows>, K32Products>>;

}  // namespace
