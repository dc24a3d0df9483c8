#include "isa/avx512/simd.hpp"
#include "kernels/families/attention.hpp"

RAPT_PART(attention_f64) = {.f64 = bodies<double>()};
