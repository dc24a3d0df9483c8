// Defines the order of operations of adamw_step and sgd_step, for all instruction-set levels. It is that of PyTorch's
// single-tensor path. Every operation rounds to f32, and none is fused. Square root and quotient are correctly rounded.
//
//   adamw_step   g = grad * sign
//                p = param * param_factor
//                if decay is not 0: g = g + decay * p
//                m = exp_avg + weight * (g - exp_avg)                where weight < 1/2, else
//                m = g - (g - exp_avg) * (1 - weight)
//                v = exp_avg_sq * beta2 + (square_factor * g) * g
//                w = v;  with max_exp_avg_sq: v if max_exp_avg_sq < v or v is NaN, else max_exp_avg_sq
//                param = p + (step_size * m) / (sqrt(w) / root + eps)
//
//   sgd_step     g = grad * sign
//                if decay is not 0: g = g + decay * param
//                with momentum: b = momentum_buffer * momentum + grad_factor * g, in the first step b = g
//                               g = g + momentum * b if nesterov, else b
//                param = param + step_size * g
//
// The numbers that have no element in them are computed in double, and rounded to f32 once (api/optimizer.cpp).
#pragma once

#include <cstddef>

#include "contract/fused.hpp"

namespace rapt {
namespace {

// Returns x^n for 0 <= x < 1 by squares, as pairs of doubles whose sum is the number. A product of pairs errs by less
// than 2^-100 of itself, and so x^n by less than n 2^-100: with the last rounding, by 0.501 ULP up to n = 2^36.
inline double power_of(double x, std::size_t n) {
  struct Pair {
    double high, low;
    Pair operator*(const Pair &b) const {
      const double product = high * b.high;
      const double rest = fused(high, b.high, -product) + (high * b.low + low * b.high);
      const double sum = product + rest;
      return {sum, rest - (sum - product)};
    }
  };
  Pair result{1, 0}, square{x, 0};
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) result = result * square;
    square = square * square;
  }
  return result.high;
}

}  // namespace
}  // namespace rapt
