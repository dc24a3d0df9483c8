#include "isa/neon_bf16/dot.hpp"

RAPT_PART(dot_bf16) = {.bf16 = bodies<rapt::BF16>()};
