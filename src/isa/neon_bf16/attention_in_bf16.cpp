#include "isa/neon_bf16/bfmlal_rows.hpp"
#include "kernels/families/bf16_arithmetic.hpp"

RAPT_PART(attention_in_bf16) = {.bf16 = {.attention_in_bf16 = attention_of_bf16<BfmlalRows>}};
