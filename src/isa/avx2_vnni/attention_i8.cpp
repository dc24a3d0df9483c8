#include "isa/avx2/integer_simd.hpp"
#include "isa/x86/vnni.hpp"
#include "kernels/families/attention_int8.hpp"

RAPT_PART(attention_i8) = {.i8 = {.attention = attention_of_int8<IntegerRows<VnniIntegers<IntegerSimd>>>}};
