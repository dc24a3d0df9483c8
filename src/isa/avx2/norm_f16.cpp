#include "isa/avx2/simd.hpp"
#include "kernels/families/norm.hpp"

RAPT_PART(norm_f16) = {.f16 = bodies<rapt::F16>()};
