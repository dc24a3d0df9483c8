// Describes a checked call of softmax, log_softmax or logsumexp.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// Rows with every default of the options resolved. Strides of 0 repeat, and `causal` is either none or an
// offset.
struct SoftmaxRows {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::ptrdiff_t x_stride = 0;
  std::ptrdiff_t y_stride = 0;  // not read by logsumexp
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

}  // namespace rapt
