// Implements the scalar reference of linear layers with quantized weights. The code spells out the order of
// every operation.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/quantized_weights.hpp"
#include "contract/fused.hpp"
#include "contract/integer_units.hpp"
#include "isa/scalar/linear.hpp"

namespace {

template <class E>
void linear_quantized(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *) {
  const rapt_linear_options &o = call->options;
  const rapt::QuantizedWeights w(o, call->w);
  const std::size_t sum_group = rapt::sum_group_of(o);
  linear_tasks<float>(call, first, last, [&](std::size_t r, std::size_t n) {
    return rapt::with_element<float>(o.x_type, [&](auto element) {
      const auto *x = call->x_at<typename decltype(element)::type>(r);
      float t = 0;
      for (std::size_t begin = 0; begin < o.in_features; begin += sum_group) {
        const std::size_t end = o.in_features - begin < sum_group ? o.in_features : begin + sum_group;
        float p = 0, x_sum = 0;
        for (std::size_t k = begin; k < end; ++k) {
          const float number = rapt::widened(x[o.x_strides.column * static_cast<std::ptrdiff_t>(k)]);
          p = fused(number, w.number(n, k), p);
          x_sum = x_sum + number;
        }
        t = fused(w.scale(n, w.group_of(begin)), p, t);
        if (w.has_offsets()) t = fused(x_sum, w.offset(n, w.group_of(begin)), t);
      }
      return t + 0.0f;
    });
  });
}

// Calls f(numbers) with a function that returns the integer of an input, and the step of an input's group.
// Inputs must be asked for in order.
template <class F>
float with_integers(const rapt::LinearCall &call, std::size_t r, F f) {
  const rapt_linear_options &o = call.options;
  const std::size_t group = rapt::x_group_of(o);
  const auto at = [&](std::size_t k) { return o.x_strides.column * static_cast<std::ptrdiff_t>(k); };
  if (o.x_type == RAPT_I8) {
    const auto *x = call.x_at<std::int8_t>(r);
    const float *scales = o.x_scales + call.x_row(r) * rapt::x_groups(o);
    return f([&](std::size_t k, float &step) {
      step = scales[k / group];
      return std::int32_t{x[at(k)]};
    });
  }
  return rapt::with_element<float>(o.x_type, [&](auto element) {
    const auto *x = call.x_at<typename decltype(element)::type>(r);
    rapt::IntegerUnits units(0, 1);
    return f([&](std::size_t k, float &step) {
      if (k % group == 0) {
        const std::size_t count = o.in_features - k < group ? o.in_features - k : group;
        units = rapt::IntegerUnits::of(count, rapt::largest_i8,
                                       [&](std::size_t i) { return rapt::widened(x[at(k + i)]); });
      }
      step = units.step;
      return units.integer(rapt::widened(x[at(k)]));
    });
  });
}

template <class E>
void linear_in_i8(const rapt::LinearCall *call, std::size_t first, std::size_t last, void *) {
  const rapt_linear_options &o = call->options;
  const rapt::QuantizedWeights w(o, call->w);
  const std::size_t sum_group = rapt::sum_group_of(o);
  linear_tasks<float>(call, first, last, [&](std::size_t r, std::size_t n) {
    return with_integers(*call, r, [&](auto integer) {
      float t = 0;
      for (std::size_t begin = 0; begin < o.in_features; begin += sum_group) {
        const std::size_t end = o.in_features - begin < sum_group ? o.in_features : begin + sum_group;
        const std::size_t group = w.group_of(begin);
        std::int32_t sum = 0, x_sum = 0;
        float step = 0;
        for (std::size_t k = begin; k < end; ++k) {
          const std::int32_t x = integer(k, step);
          sum += x * w.integer(n, k);
          x_sum += x;
        }
        t = fused(w.scale(n, group), static_cast<float>(sum) * step, t);
        if (w.has_offsets()) t = fused(static_cast<float>(x_sum) * step, w.offset(n, group), t);
      }
      return t + 0.0f;
    });
  });
}

}  // namespace
