#include "isa/avx2/simd.hpp"
#include "kernels/families/attention_backward.hpp"

RAPT_PART(attention_backward_f32) = {.f32 = bodies<float>()};
