#include "isa/neon_bf16/bfmlal_tiles.hpp"
#include "isa/neon_bf16/simd.hpp"
#include "kernels/families/linear_bf16_arithmetic.hpp"

RAPT_PART(linear_in_bf16) = {.bf16 = {.linear_in_bf16 = linear_tasks<BfmlalLayer>}};
