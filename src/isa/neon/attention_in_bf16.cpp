#include "isa/neon/simd.hpp"
#include "kernels/families/attention_in_bf16.hpp"

RAPT_PART(attention_in_bf16) = {.bf16 = bodies<rapt::BF16>()};
