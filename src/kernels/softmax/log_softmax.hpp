// log_softmax and logsumexp: a pass for the maximum, one for the sum of the exponentials, one to write.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class T>
[[gnu::flatten]] void log_softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const SoftmaxCall<T> call(*rows);
  const bool plain = call.plan.plain();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    auto [cols, row, summed, sum] = call.look_at(r, x, y);
    const PlainScores<T> scores{plain ? x : y};
    if (row.kind == RowKind::regular && !summed) {
      sum = call.template sum_exponentials<Store::none>(row, scores, cols, nullptr, scores.v);
    }
    if (row.kind == RowKind::regular && sum == sum) [[likely]] {
      const batch twice_c(static_cast<T>(2 * call.plan.c)), half(T(0.5)), half_max(T(0.5) * row.max);
      const batch minus_log(-static_cast<T>(call.finish(row, r, sum, true).log_sum));
      const auto log_probability = [&](batch v) __attribute__((always_inline)) {
        // Halves, as the difference of two numbers of the type may be out of its range where c times it is
        // not.
        return S::fma(twice_c, half * v - half_max, minus_log);
      };
      map(scores.v, y, cols, log_probability);
    } else {
      const RowKind kind = row.kind == RowKind::regular ? RowKind::not_a_number : row.kind;
      fill_irregular(call.plan, r, kind, y, cols, -infinity);
    }
    if (cols < rows->cols) fill(y + cols, rows->cols - cols, -infinity);
  }
}

template <bool plain, class T>
[[gnu::noinline, gnu::flatten]] T logsumexp_row(const SoftmaxCall<T> &call, const T *x, std::size_t r) {
  const auto scores = [&] {
    if constexpr (plain) {
      return PlainScores<T>{x};
    } else {
      return MadeScores<T>(call.plan, x, r);
    }
  }();
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const T *sinks = call.plan.sinks();
  auto [cols, row, summed, sum] = call.look_at(r, scores, call.plan.visible_cols(r));
  if (row.kind == RowKind::not_a_number) return std::numeric_limits<T>::quiet_NaN();
  if (row.kind == RowKind::nothing_visible) return sinks ? sinks[r] : -infinity;
  if (row.kind == RowKind::all_minus_infinity) return -infinity;
  if (!summed) {
    sum = call.template sum_exponentials<Store::none>(row, scores, cols, nullptr, x);
  }
  if (sum != sum) return std::numeric_limits<T>::quiet_NaN();
  const T result =
      static_cast<T>(std::fma(call.plan.c, double{row.max}, call.finish(row, r, sum, true).log_sum));
  return sinks && result < sinks[r] ? sinks[r] : result;  // by rounding
}

template <class T>
void logsumexp(const T *x, T *out, const rapt::SoftmaxRows *rows) {
  const SoftmaxCall<T> call(*rows);
  const bool plain = call.plan.plain();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride) {
    out[r] = plain ? logsumexp_row<true>(call, x, r) : logsumexp_row<false>(call, x, r);
  }
}

}  // namespace
