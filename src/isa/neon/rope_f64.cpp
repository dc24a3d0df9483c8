#include "isa/neon/simd.hpp"
#include "kernels/families/rope.hpp"

RAPT_PART(rope_f64) = {.f64 = bodies<double>()};
