// Computes linear layers in bf16 arithmetic with AMX.

#include "isa/amx/linear_bf16.hpp"
#include "kernels/part.hpp"

RAPT_PART(linear_in_bf16) = {.bf16 = {.linear_in_bf16 = linear_in_bf16_by_amx}};
