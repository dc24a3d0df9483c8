// Implements the scalar reference of the metrics. A result is that of one pair of vectors, whatever else a call
// compares.
#pragma once

#include <cstddef>
#include <cstdint>

#include "call/metric_rows.hpp"
#include "contract/metric.hpp"
#include "isa/scalar/dot.hpp"

namespace {

template <class E>
rapt::MetricNumber<E> squared_distance(const E *a, const E *b, std::size_t n) {
  if constexpr (sizeof(E) == 1) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += (int{a[i]} - int{b[i]}) * (int{a[i]} - int{b[i]});
    return static_cast<double>(sum);
  } else {
    const auto difference = [=](std::size_t i) { return rapt::widened(a[i]) - rapt::widened(b[i]); };
    return sum_of_products<rapt::Arithmetic<E>>(n, difference, difference);
  }
}

template <class E, int kind>
rapt::MetricResult<E> metric_of(const void *first, const void *second, std::size_t n) {
  using Number = rapt::MetricNumber<E>;
  const E *const a = static_cast<const E *>(first), *const b = static_cast<const E *>(second);
  const auto product = [=](const E *x, const E *y) { return static_cast<Number>(dot(x, y, n)); };
  Number result;
  if (kind == RAPT_METRIC_L2_SQUARED) {
    result = squared_distance(a, b, n);
  } else if (kind == RAPT_METRIC_COSINE || kind == RAPT_METRIC_COSINE_DISTANCE) {
    const Number divisor = rapt::square_root(product(a, a)) * rapt::square_root(product(b, b));
    result = divisor == 0 ? 0 : product(a, b) / divisor;
  } else {
    result = product(a, b);
  }
  if (kind == RAPT_METRIC_DOT_DISTANCE || kind == RAPT_METRIC_COSINE_DISTANCE) result = 1 - result;
  return static_cast<rapt::MetricResult<E>>(result);
}

template <class E>
rapt::MetricFunction<E> metric(int kind) {
  return rapt::metric_function<E>(kind, []<int k>() { return metric_of<E, k>; });
}

template <class E>
void metric_rows(const rapt::MetricRows *call) {
  const rapt::MetricFunction<E> function = metric<E>(call->kind);
  const auto row_of = [](const void *rows, std::ptrdiff_t stride, std::size_t i) {
    return static_cast<const E *>(rows) + stride * static_cast<std::ptrdiff_t>(i);
  };
  for (std::size_t i = 0; i < call->query_count; ++i) {
    rapt::MetricResult<E> *const out =
        static_cast<rapt::MetricResult<E> *>(call->out) + call->out_stride * static_cast<std::ptrdiff_t>(i);
    for (std::size_t j = 0; j < call->row_count; ++j) {
      out[j] = function(row_of(call->queries, call->query_stride, i), row_of(call->rows, call->row_stride, j),
                        call->dim);
    }
  }
}

}  // namespace
