#include "isa/avx2/simd.hpp"
#include "kernels/families/attention.hpp"

RAPT_PART(attention_bf16) = {.bf16 = bodies<rapt::BF16>()};
