#include "isa/neon/simd.hpp"
#include "kernels/families/norm.hpp"

RAPT_PART(norm_f32) = {.f32 = bodies<float>()};
