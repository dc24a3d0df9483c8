// Computes attention in bf16 arithmetic with AMX.

#include "isa/amx/bf16_batch.hpp"
#include "isa/amx/tile_batch.hpp"
#include "kernels/part.hpp"

RAPT_PART(attention_in_bf16) = {.bf16 = {.attention_in_bf16 = attention_by_amx<Bf16Batch>}};
