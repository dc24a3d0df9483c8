#include "isa/avx512/simd.hpp"
#include "kernels/families/softmax.hpp"

RAPT_PART(softmax_f64) = {.f64 = bodies<double>()};
