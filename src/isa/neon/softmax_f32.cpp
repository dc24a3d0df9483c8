#include "isa/neon/simd.hpp"
#include "kernels/families/softmax.hpp"

RAPT_PART(softmax_f32) = {.f32 = bodies<float>()};
