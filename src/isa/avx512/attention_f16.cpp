#include "isa/avx512/simd.hpp"
#include "kernels/families/attention.hpp"

RAPT_PART(attention_f16) = {.f16 = bodies<rapt::F16>()};
