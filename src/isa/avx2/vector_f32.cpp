#include "isa/avx2/simd.hpp"
#include "kernels/families/vector.hpp"

RAPT_PART(vector_f32) = {.f32 = bodies<float>()};
