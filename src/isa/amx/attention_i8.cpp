// Computes attention over int8 keys and values with AMX.

#include "isa/amx/int8_batch.hpp"
#include "isa/amx/tile_batch.hpp"
#include "kernels/part.hpp"

RAPT_PART(attention_i8) = {.i8 = {.attention = attention_by_amx<Int8Batch>}};
