#include "isa/avx2/simd.hpp"
#include "kernels/families/linear.hpp"

RAPT_PART(linear_bf16) = {.bf16 = bodies<rapt::BF16>()};
