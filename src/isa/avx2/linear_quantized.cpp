#include "isa/avx2/codes.hpp"
#include "kernels/families/quantized.hpp"

RAPT_PART(linear_quantized) = {.i8 = {.linear_quantized = linear_of_codes<Avx2Codes>,
                                      .quantize_rows = quantize_rows<std::int8_t>,
                                      .dequantize_rows = dequantize_rows<std::int8_t>}};
