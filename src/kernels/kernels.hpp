// The table of kernels that each level fills, made from kernels.def.
#pragma once

#include <cstddef>
#include <cstdint>

#include "contract/no_fast_math.hpp"
#include "rapt/rapt.h"

namespace rapt {

// A batch of rows for softmax, log_softmax and logsumexp: the arguments that the public functions share,
// checked, with every default of the options resolved. Strides of 0 repeat; causal is none or an offset.
struct SoftmaxRows {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::ptrdiff_t x_stride = 0;
  std::ptrdiff_t y_stride = 0;  // not read by logsumexp
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

struct AttentionCall;

// Null where a level lacks a kernel and the next lower one's serves.
struct KernelTable {
#define STAGE(name, kernel)
#define KERNEL(name, result, parameters, arguments) result(*name) parameters;
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace rapt
