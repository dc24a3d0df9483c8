#include "isa/avx512/simd.hpp"
#include "kernels/families/rope.hpp"

RAPT_PART(rope_bf16) = {.bf16 = bodies<rapt::BF16>()};
