// Copies rows of q, k and the gates of the delta rule: widened, and divided by their length.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>

#include "api/halves.hpp"
#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace rapt {
namespace {

struct DeltaNorm {
  int kind = RAPT_L2_NORM_NONE;
  float eps = 0;

  // Returns the number of which a row is a multiple.
  float factor(const float *row, std::size_t n) const {
    const float sum = kernels().f32.dot(row, row, n);
    if (kind == RAPT_L2_NORM_ADD_EPS) return 1.0f / std::sqrt(sum + eps);
    const float length = std::sqrt(sum);
    return 1.0f / (length < eps ? eps : length);  // a NaN stays
  }
  // Turns `d`, the gradient of a row times its factor, into that of the row. The row becomes the product.
  void take_back(float *row, float *d, std::size_t n) const {
    const float of_row = factor(row, n);
    const bool is_constant = kind == RAPT_L2_NORM_MAX_EPS && std::sqrt(kernels().f32.dot(row, row, n)) < eps;
    kernels().f32.scale(row, of_row, row, n);
    const float product = is_constant ? 0.0f : kernels().f32.dot(row, d, n);
    for (std::size_t i = 0; i < n; ++i) d[i] = of_row * (is_constant ? d[i] : d[i] - row[i] * product);
  }
};

template <class E>
void copy_row(const E *from, float *to, std::size_t n, const DeltaNorm &norm) {
  if constexpr (sizeof(E) == sizeof(float)) {
    std::memcpy(to, from, n * sizeof(float));
  } else if (n < 16) {
    for (std::size_t i = 0; i < n; ++i) to[i] = widened(from[i]);
  } else {
    widen_elements<E>(from, to, n);
  }
  if (norm.kind != RAPT_L2_NORM_NONE) kernels().f32.scale(to, norm.factor(to, n), to, n);
}

// Points a call at the factors of the state and at beta, which it makes of the rows of g and beta. g_of(i) and
// beta_of(i) are those of the call's token i.
template <class Call, class GOf, class BetaOf>
void prepare_gates(const rapt_delta_rule_options &o, GOf g_of, BetaOf beta_of, float *decay, float *beta,
                   Call &call) {
  static constexpr float one = 1;
  call.decay = &one, call.decay_step = 0, call.decay_key_step = 0;
  if (o.g) {
    const std::size_t count = o.decay_per_key ? o.key_dim : 1;
    for (std::size_t i = 0; i < call.tokens; ++i) copy_row(g_of(i), decay + i * count, count, {});
    kernels().f32.exp(decay, decay, call.tokens * count);
    call.decay = decay, call.decay_step = static_cast<std::ptrdiff_t>(count);
    call.decay_key_step = o.decay_per_key ? 1 : 0;
  }
  if (o.beta) {
    for (std::size_t i = 0; i < call.tokens; ++i) copy_row(beta_of(i), beta + i, 1, {});
    call.beta = beta, call.beta_step = 1;
  }
}

}  // namespace
}  // namespace rapt
