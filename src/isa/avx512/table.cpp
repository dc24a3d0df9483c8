// AVX-512 (F, BW, CD, DQ, VL): the shared bodies serve throughout. simd.hpp comes first, as they are written
// over it.
// clang-format off
#include "isa/avx512/simd.hpp"

#include "kernels/dot.hpp"
#include "kernels/exp.hpp"
#include "kernels/exp_sum.hpp"
#include "kernels/softmax/log_softmax.hpp"
#include "kernels/softmax/logsumexp.hpp"
#include "kernels/scale.hpp"
#include "kernels/softmax/softmax.hpp"
#include "kernels/softmax/softmax_backward.hpp"
#include "kernels/table.hpp"
// clang-format on

extern "C" constinit const rapt::KernelTable rapt_table_avx512;
constinit const rapt::KernelTable rapt_table_avx512 = all_kernels();
