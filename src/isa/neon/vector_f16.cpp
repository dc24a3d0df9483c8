#include "isa/neon/simd.hpp"
#include "kernels/families/vector.hpp"

RAPT_PART(vector_f16) = {.f16 = bodies<rapt::F16>()};
