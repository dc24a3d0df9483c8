// Codes of fewer than 8 bits are multiplied as bytes, which isa/x86/small_codes.hpp compares with other ways.
#include "isa/avx2/codes.hpp"
#include "isa/x86/small_codes.hpp"
#include "kernels/families/quantized.hpp"

RAPT_PART(linear_in_i8) = {.i8 = {.linear_in_i8 = linear_of_bytes_or_small<CodeSimd, SmallCodes<CodeSimd>>}};
