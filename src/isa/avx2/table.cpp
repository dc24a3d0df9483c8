// AVX2 with FMA: the shared bodies serve throughout. simd.hpp comes first, as they are written over it.
// clang-format off
#include "isa/avx2/simd.hpp"

#include "kernels/dot.hpp"
#include "kernels/exp.hpp"
#include "kernels/log_softmax.hpp"
#include "kernels/scale.hpp"
#include "kernels/softmax.hpp"
#include "kernels/softmax_backward.hpp"
#include "kernels/table.hpp"
// clang-format on

extern "C" constinit const rapt::KernelTable rapt_table_avx2;
constinit const rapt::KernelTable rapt_table_avx2 = all_kernels();
