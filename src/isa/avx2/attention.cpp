// Attention: the shared bodies serve throughout. simd.hpp comes first, as they are written over it.
// clang-format off
#include "isa/avx2/simd.hpp"

#include "kernels/attention/attention.hpp"
#include "kernels/attention/backward/attention_backward.hpp"
#include "kernels/attention/bodies.hpp"
// clang-format on
