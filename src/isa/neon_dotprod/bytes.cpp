#include "kernels/families/bytes.hpp"

#include "isa/neon_dotprod/byte_simd.hpp"

RAPT_PART(bytes) = {.i8 = bodies<std::int8_t>(), .u8i8 = bodies<std::uint8_t>()};
