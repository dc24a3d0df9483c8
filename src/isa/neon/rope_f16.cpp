#include "isa/neon/simd.hpp"
#include "kernels/families/rope.hpp"

RAPT_PART(rope_f16) = {.f16 = bodies<rapt::F16>()};
