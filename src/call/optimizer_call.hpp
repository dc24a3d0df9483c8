// Describes a checked step of an optimizer: f32 arrays, and the numbers that have no element in them
// (contract/optimizer.hpp).
#pragma once

#include <cstddef>

namespace rapt {

struct AdamwCall {
  float *param = nullptr;
  const float *grad = nullptr;
  float *exp_avg = nullptr, *exp_avg_sq = nullptr, *max_exp_avg_sq = nullptr;
  std::size_t count = 0;

  float sign = 1;          // -1 to maximize
  float param_factor = 1;  // 1 - lr * weight_decay
  float decay = 0;         // of the gradient, or 0
  float weight = 0;        // 1 - beta1
  float beta2 = 0;
  float square_factor = 0;  // 1 - beta2
  float root = 1;           // sqrt(1 - beta2^step)
  float eps = 0;
  float step_size = 0;  // -(lr / (1 - beta1^step))
};

struct SgdCall {
  float *param = nullptr;
  const float *grad = nullptr;
  float *momentum_buffer = nullptr;  // null without momentum
  std::size_t count = 0;

  float sign = 1;
  float decay = 0;  // weight_decay, or 0
  float momentum = 0;
  float grad_factor = 1;  // 1 - dampening
  float step_size = 0;    // -lr
  bool nesterov = false;
  bool first_step = false;
};

}  // namespace rapt
