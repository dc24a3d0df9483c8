#include "isa/avx512/simd.hpp"
#include "kernels/families/linear_bf16_arithmetic.hpp"

RAPT_PART(linear_in_bf16) = {.bf16 = bodies<rapt::BF16>()};
