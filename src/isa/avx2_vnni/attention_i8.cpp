#include "isa/avx2/integer_simd.hpp"
#include "kernels/families/attention_int8.hpp"

RAPT_PART(attention_i8) = {.i8 = bodies<std::int8_t>()};
