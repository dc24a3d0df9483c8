#include "isa/avx512/codes.hpp"
#include "isa/x86/small_codes.hpp"
#include "kernels/families/quantized.hpp"

RAPT_PART(linear_in_i8) = {.i8 = {.linear_in_i8 = linear_of_bytes_or_small<CodeSimd, SmallCodes<CodeSimd>>}};
