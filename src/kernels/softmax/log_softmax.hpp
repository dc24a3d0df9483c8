// Computes log_softmax. One pass finds the maximum, one sums the exponentials, and one writes the results.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/softmax/irregular.hpp"
#include "kernels/softmax/softmax_call.hpp"
#include "kernels/vector/fill.hpp"
#include "kernels/vector/inner.hpp"

namespace {

template <class E>
[[gnu::flatten]] void log_softmax(const E *x, E *y, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using batch = typename S::batch;
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const SoftmaxCall<A> call(*rows);
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    auto pass = call.first_pass(r, x, scratch_of(y));
    const auto &row = pass.max;
    const std::size_t cols = pass.cols;
    if (row.kind == RowKind::regular && !pass.summed) {
      pass.sum = with_scores(call.plan, r, x, scratch_of(y), [&](const auto &scores) RAPT_INNER {
        return call.template sum_exponentials<Store::none>(row, scores, cols, nullptr, scores.address(0));
      });
    }
    if (row.kind == RowKind::regular && pass.sum == pass.sum) [[likely]] {
      const batch twice_c(static_cast<A>(2 * call.plan.c)), half(A(0.5)), half_max(A(0.5) * row.max);
      const batch minus_log(-static_cast<A>(call.finish(row, r, pass.sum, true).log_sum));
      // Subtracts halves, because v - max may overflow although c * (v - max) does not.
      const auto log_probability = [&](batch v)
                                       RAPT_INNER { return S::fma(twice_c, half * v - half_max, minus_log); };
      with_scores(call.plan, r, x, scratch_of(y),
                  [&](const auto &scores) RAPT_INNER { map_scores(scores, y, cols, log_probability); });
    } else {
      const RowKind kind = row.kind == RowKind::regular ? RowKind::not_a_number : row.kind;
      fill_irregular(call.plan, r, kind, y, cols, -infinity);
    }
    if (cols < rows->cols) fill(y + cols, rows->cols - cols, -infinity);
  }
}

}  // namespace
