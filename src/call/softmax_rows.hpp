// Describes a checked call of softmax, log_softmax or logsumexp.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// Holds the arguments of a call, with every default filled in. Strides of 0 repeat a row. Unless
// options.causal is RAPT_CAUSAL_NONE, row r sees the columns up to r + options.causal_offset.
struct SoftmaxRows {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::ptrdiff_t x_stride = 0;
  std::ptrdiff_t y_stride = 0;  // not read by logsumexp
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

}  // namespace rapt
