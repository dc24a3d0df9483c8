#include "isa/avx512/simd.hpp"
#include "kernels/families/norm.hpp"

RAPT_PART(norm_f64) = {.f64 = bodies<double>()};
