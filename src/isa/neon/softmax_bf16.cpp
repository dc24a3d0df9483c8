#include "isa/neon/simd.hpp"
#include "kernels/families/softmax.hpp"

RAPT_PART(softmax_bf16) = {.bf16 = bodies<rapt::BF16>()};
