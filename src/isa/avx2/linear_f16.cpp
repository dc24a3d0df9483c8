#include "isa/avx2/simd.hpp"
#include "kernels/families/linear.hpp"

RAPT_PART(linear_f16) = {.f16 = bodies<rapt::F16>()};
