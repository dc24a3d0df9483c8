// A checked call of softmax, log_softmax or logsumexp.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// A batch of rows with every default of the options resolved: strides of 0 repeat, `causal` is none or an
// offset.
struct SoftmaxRows {
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::ptrdiff_t x_stride = 0;
  std::ptrdiff_t y_stride = 0;  // not read by logsumexp
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
};

}  // namespace rapt
