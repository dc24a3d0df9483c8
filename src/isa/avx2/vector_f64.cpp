#include "isa/avx2/simd.hpp"
#include "kernels/families/vector.hpp"

RAPT_PART(vector_f64) = {.f64 = bodies<double>()};
