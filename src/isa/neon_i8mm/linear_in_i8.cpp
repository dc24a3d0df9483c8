#include "isa/neon_i8mm/codes.hpp"
#include "isa/neon_i8mm/matrix_tiles.hpp"
#include "kernels/families/quantized.hpp"

RAPT_PART(linear_in_i8) = {.i8 = {.linear_in_i8 = linear_tasks<MatrixLayer>}};
