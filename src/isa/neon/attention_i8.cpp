#include "isa/neon/integer_simd.hpp"

namespace {

using IntegerSimd = NeonIntegers;

}  // namespace

#include "kernels/families/attention_int8.hpp"

RAPT_PART(attention_i8) = {.i8 = bodies<std::int8_t>()};
