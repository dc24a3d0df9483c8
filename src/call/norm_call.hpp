// Describes a checked call of rms_norm, layer_norm or one of their gradients.
#pragma once

#include "rapt/rapt.h"

namespace rapt {

// Holds the arguments of a call, with every default filled in. The strides of a single row are 0.
struct NormCall {
  const void *x = nullptr;
  void *y = nullptr;
  rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
};

struct NormBackwardCall {
  const void *x = nullptr;
  const void *dy = nullptr;
  void *dx = nullptr;
  rapt_norm_backward_options options = RAPT_NORM_BACKWARD_OPTIONS_INIT;
};

}  // namespace rapt
