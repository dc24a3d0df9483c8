#include "isa/avx2/simd.hpp"
#include "kernels/families/norm.hpp"

RAPT_PART(norm_bf16) = {.bf16 = bodies<rapt::BF16>()};
