// Describes a checked call of softmax_backward or log_softmax_backward.
#pragma once

#include <cstddef>

#include "rapt/rapt.h"

namespace rapt {

// Holds the arguments of a call. The strides of a single row are 0. Elements of 16 bits are widened and narrowed by
// functions of the level, so that the bodies are compiled once for f32 and all that is computed as f32.
struct SoftmaxGradient {
  const void *y = nullptr;
  std::ptrdiff_t y_stride = 0;
  const void *dy = nullptr;
  std::ptrdiff_t dy_stride = 0;
  void *dx = nullptr;
  std::ptrdiff_t dx_stride = 0;
  std::size_t rows = 0, cols = 0;
  double scale = 1;  // a number of the arithmetic type
  rapt_type type = RAPT_F32;
  void (*widen)(const void *x, float *y, std::size_t n) = nullptr;
  void (*narrow)(const float *x, void *y, std::size_t n) = nullptr;
};

}  // namespace rapt
