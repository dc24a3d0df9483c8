#include "isa/avx512/simd.hpp"
#include "kernels/families/attention.hpp"

RAPT_PART(attention_f32) = {.f32 = bodies<float>()};
