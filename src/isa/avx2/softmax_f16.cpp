#include "isa/avx2/simd.hpp"
#include "kernels/families/softmax.hpp"

RAPT_PART(softmax_f16) = {.f16 = bodies<rapt::F16>()};
