// Implements the scalar reference of linear layers. The code spells out the order of every operation.
#pragma once

#include <cstddef>

#include "call/element.hpp"
#include "call/linear_call.hpp"
#include "call/packed_weights.hpp"
#include "contract/fused.hpp"
#include "contract/linear.hpp"
#include "contract/types.hpp"
#include "isa/scalar/bf16_arithmetic.hpp"

namespace {

// Returns the sum of x(k) * w(k) for k < n: chains of 512 products, added in order.
template <class A, class X, class W>
A sum_of_groups(std::size_t n, X x, W w) {
  A t = 0;
  for (std::size_t begin = 0; begin < n; begin += rapt::linear_sum_group) {
    const std::size_t end = n - begin < rapt::linear_sum_group ? n : begin + rapt::linear_sum_group;
    A p = 0;
    for (std::size_t k = begin; k < end; ++k) p = fused(x(k), w(k), p);
    t = t + p;
  }
  return t + A(0);
}

// Computes tasks. t(r, n) returns the sum of products of row r and output n.
template <class A, class T>
void linear_tasks(const rapt::LinearCall *call, std::size_t first, std::size_t last, T t) {
  const rapt_linear_options &o = call->options;
  const rapt::LinearTasks tasks(o);
  const auto output = [&](std::size_t r, std::size_t n) {
    A y = t(r, n);
    if (o.output_scales) y = y * static_cast<const A *>(o.output_scales)[n];
    if (o.bias) y = y + static_cast<const A *>(o.bias)[n];
    if (call->row_bias) y = y + static_cast<const A *>(call->row_bias)[r];
    if (o.row_scales) y = y * call->row_scale<A>(r);
    if (!o.add) return y;
    return y + rapt::with_element<A>(o.add_type, [&](auto element) {
             return rapt::widened(*call->add_at<typename decltype(element)::type>(r, n));
           });
  };
  for (std::size_t i = first; i < last; ++i) {
    const rapt::LinearTask task = tasks[i];
    for (std::size_t r = task.first_row; r < task.first_row + task.rows; ++r) {
      for (std::size_t n = task.first_output; n < task.first_output + task.outputs; ++n) {
        const A y = output(r, n);
        rapt::with_element<A>(o.y_type, [&](auto element) {
          using Y = typename decltype(element)::type;
          *call->y_at<Y>(r, n) = rapt::narrowed<Y>(y);
        });
      }
    }
  }
}

// Computes tasks with weights of type E. sum(n, x, w) returns the sum of x(k) * w(k) for k < n.
template <class E, class Sum>
void linear_tasks_of(const rapt::LinearCall *call, std::size_t first, std::size_t last, Sum sum) {
  using A = rapt::Arithmetic<E>;
  const rapt_linear_options &o = call->options;
  const auto weight = [&](std::size_t n, std::size_t k) {
    if (call->w_offsets) return rapt::widened(*(static_cast<const E *>(call->w) + call->w_offsets[k] + n));
    if (!o.packed_w) return rapt::widened(*call->w_at<E>(n, k));
    return rapt::widened(static_cast<const E *>(call->w)[rapt::packed_weight_offset<E>(n, k, o.in_features)]);
  };
  linear_tasks<A>(call, first, last, [&](std::size_t r, std::size_t n) {
    return rapt::with_element<A>(o.x_type, [&](auto element) {
      const auto *x = call->x_at<typename decltype(element)::type>(r);
      const auto input = [&](std::size_t k) {
        return rapt::widened(x[o.x_strides.column * static_cast<std::ptrdiff_t>(k)]);
      };
      return sum(o.in_features, input, [&](std::size_t k) { return weight(n, k); });
    });
  });
}

template <class E>
void linear(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *) {
  linear_tasks_of<E>(call, first, last, [](std::size_t n, auto x, auto w) {
    return sum_of_groups<rapt::Arithmetic<E>>(n, x, w);
  });
}
template <class E>
void linear_in_bf16(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *) {
  linear_tasks_of<E>(call, first, last,
                     [](std::size_t n, auto x, auto w) { return add_k32s(0, n, x, w) + 0.0f; });
}

}  // namespace
