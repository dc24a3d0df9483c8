// Implements the scalar reference of adamw_step and sgd_step.
#pragma once

#include <cmath>
#include <cstddef>

#include "call/optimizer_call.hpp"
#include "contract/norm.hpp"

namespace {

template <class A>
void adamw_step(const rapt::AdamwCall *call) {
  const rapt::AdamwCall &c = *call;
  for (std::size_t i = 0; i < c.count; ++i) {
    A p = c.param[i] * c.param_factor, g = c.grad[i] * c.sign;
    if (c.decay != 0) g = g + c.decay * p;
    A &m = c.exp_avg[i], &v = c.exp_avg_sq[i];
    m = c.weight < A(0.5) ? m + c.weight * (g - m) : g - (g - m) * (1 - c.weight);
    v = v * c.beta2 + (c.square_factor * g) * g;
    A w = v;
    if (c.max_exp_avg_sq) {
      if (c.max_exp_avg_sq[i] < v || std::isnan(v)) c.max_exp_avg_sq[i] = v;
      w = c.max_exp_avg_sq[i];
    }
    c.param[i] = p + (c.step_size * m) / (rapt::square_root(w) / c.root + c.eps);
  }
}

template <class A>
void sgd_step(const rapt::SgdCall *call) {
  const rapt::SgdCall &c = *call;
  for (std::size_t i = 0; i < c.count; ++i) {
    A g = c.grad[i] * c.sign;
    if (c.decay != 0) g = g + c.decay * c.param[i];
    if (c.momentum_buffer) {
      A &b = c.momentum_buffer[i];
      b = c.first_step ? g : b * c.momentum + c.grad_factor * g;
      g = c.nesterov ? g + c.momentum * b : b;
    }
    c.param[i] = c.param[i] + c.step_size * g;
  }
}

}  // namespace
