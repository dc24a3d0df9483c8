#include "isa/neon/simd.hpp"
#include "kernels/families/rope.hpp"

RAPT_PART(rope_f32) = {.f32 = bodies<float>()};
