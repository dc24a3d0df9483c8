#include "isa/avx2/simd.hpp"
#include "kernels/families/linear.hpp"

RAPT_PART(linear_f32) = {.f32 = bodies<float>()};
