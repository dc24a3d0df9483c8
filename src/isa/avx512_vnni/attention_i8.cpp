#include "isa/avx512_vnni/integer_simd.hpp"
#include "kernels/families/attention_int8.hpp"

RAPT_PART(attention_i8) = {.i8 = {.attention = attention_of_int8<IntegerRows<VnniIntegers>>}};
