#include "isa/neon/simd.hpp"
#include "kernels/families/vector.hpp"

RAPT_PART(vector_bf16) = {.bf16 = bodies<rapt::BF16>()};
