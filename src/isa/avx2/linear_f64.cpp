#include "isa/avx2/simd.hpp"
#include "kernels/families/linear.hpp"

RAPT_PART(linear_f64) = {.f64 = bodies<double>()};
