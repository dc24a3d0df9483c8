// The reference's attention.
// clang-format off
#include "isa/scalar/attention.hpp"
#include "isa/scalar/attention_backward.hpp"

#include "kernels/attention/bodies.hpp"
// clang-format on
