// Implements the scalar reference of softmax_backward and log_softmax_backward.
#pragma once

#include <cstddef>
#include <limits>

#include "call/softmax_gradient.hpp"
#include "contract/fused.hpp"
#include "contract/types.hpp"
#include "isa/scalar/dot.hpp"
#include "isa/scalar/exp.hpp"

namespace {

template <class E>
void softmax_backward_of(const rapt::SoftmaxGradient &call) {
  using A = rapt::Arithmetic<E>;
  const E *y_row = static_cast<const E *>(call.y), *dy_row = static_cast<const E *>(call.dy);
  E *dx = static_cast<E *>(call.dx);
  for (std::size_t r = 0; r < call.rows; ++r) {
    const auto y = [=](std::size_t i) { return rapt::widened(y_row[i]); };
    const auto dy = [=](std::size_t i) { return rapt::widened(dy_row[i]); };
    const A mean = sum_of_products<A>(call.cols, y, [=](std::size_t i) { return y(i) != 0 ? dy(i) : A(0); });
    for (std::size_t i = 0; i < call.cols; ++i) {
      const A result = y(i) != 0 ? (y(i) * (dy(i) - mean)) * static_cast<A>(call.scale) : A(0);
      dx[i] = rapt::narrowed<E>(result);
    }
    y_row += call.y_stride;
    dy_row += call.dy_stride;
    dx += call.dx_stride;
  }
}

template <class E>
void log_softmax_backward_of(const rapt::SoftmaxGradient &call) {
  using A = rapt::Arithmetic<E>;
  const Reduction<A> natural(1.0);
  const E *y_row = static_cast<const E *>(call.y), *dy_row = static_cast<const E *>(call.dy);
  E *dx = static_cast<E *>(call.dx);
  for (std::size_t r = 0; r < call.rows; ++r) {
    const auto is_excluded = [=](std::size_t i) {
      return rapt::widened(y_row[i]) == -std::numeric_limits<A>::infinity();
    };
    const auto dy = [=](std::size_t i) { return rapt::widened(dy_row[i]); };
    const A sum = sum_of_products<A>(
        call.cols, [=](std::size_t i) { return is_excluded(i) ? A(0) : dy(i); },
        [](std::size_t) { return A(1); });
    for (std::size_t i = 0; i < call.cols; ++i) {
      const A e = exp_one(natural, rapt::widened(y_row[i]));
      const A result = is_excluded(i) ? A(0) : fused(-e, sum, dy(i)) * static_cast<A>(call.scale);
      dx[i] = rapt::narrowed<E>(result);
    }
    y_row += call.y_stride;
    dy_row += call.dy_stride;
    dx += call.dx_stride;
  }
}

template <class A>
void softmax_backward(const rapt::SoftmaxGradient *call) {
  if constexpr (sizeof(A) == sizeof(float)) {
    if (call->type == RAPT_F16) return softmax_backward_of<rapt::F16>(*call);
    if (call->type == RAPT_BF16) return softmax_backward_of<rapt::BF16>(*call);
  }
  softmax_backward_of<A>(*call);
}
template <class A>
void log_softmax_backward(const rapt::SoftmaxGradient *call) {
  if constexpr (sizeof(A) == sizeof(float)) {
    if (call->type == RAPT_F16) return log_softmax_backward_of<rapt::F16>(*call);
    if (call->type == RAPT_BF16) return log_softmax_backward_of<rapt::BF16>(*call);
  }
  log_softmax_backward_of<A>(*call);
}

}  // namespace
