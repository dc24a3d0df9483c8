#include "kernels/families/bytes.hpp"

#include "isa/neon_i8mm/byte_simd.hpp"

RAPT_PART(bytes) = {.u8i8 = bodies<std::uint8_t>()};
