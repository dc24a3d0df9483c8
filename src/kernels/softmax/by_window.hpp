// softmax without a maximum, row by row: a pass for the exponentials and their sum, one to divide.
#pragma once

#include <cstddef>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/window.hpp"

namespace {

// Rows whose scores are their elements, masked or not, without sinks; the output is scratch. Rows with a
// score outside of the window go by their maxima.
template <class A>
[[gnu::noinline, gnu::flatten]] void softmax_by_window(const SoftmaxCall<A> &call, const A *x, A *y) {
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool in_place = x == y, is_plain = call.plan.plain();
  WindowExp<A> window(call.k);
  WindowTries tries;
  bool has_minus_infinity = false;  // the row before; rows of a call are alike
  std::size_t r = 0;
  const auto skip = [&](std::size_t count) {
    softmax_by_rows(call, x, y, r, r + count);
    r += count;
    x += static_cast<std::ptrdiff_t>(count) * rows.x_stride;
    y += static_cast<std::ptrdiff_t>(count) * rows.y_stride;
  };
  while (r < rows.rows) {
    if (const std::size_t untried = tries.untried(rows.rows - r)) {
      skip(untried);
      continue;
    }
    const std::size_t cols = call.plan.visible_cols(r);
    const A *const next = r + 1 < rows.rows ? x + rows.x_stride : x;
    double total = 0;
    const auto sum_row = [&](const auto &elements) __attribute__((always_inline)) {
      BlockSum<A> sum;
      // In place, exponentials replace the elements, which a row outside of the window needs again.
      if (in_place && !row_is_in_window(call.k, elements, cols)) return false;
      if (!sum_in_window<Store::exact>(window, elements, y, cols, sum, FetchRow<A>{next})) return false;
      total = sum.fold();
      return true;
    };
    bool inside;
    if (!is_plain) {
      inside = sum_row(MaskedElements<A>{x, call.plan.mask_row(r)});
    } else {
      inside = !has_minus_infinity && sum_row(PlainElements<A>{x});
      if (!inside) inside = has_minus_infinity = sum_row(FiniteElements<A>{x});
    }
    if (!inside) [[unlikely]] {
      tries.was_outside(1);
      skip(1);
      continue;
    }
    if (total > 0) [[likely]] {
      const Reciprocal<A> reciprocal(total);
      map(static_cast<const A *>(y), y, cols, PlainQuotient<A>(reciprocal.high, reciprocal.low));
    } else if (is_plain) {
      fill_irregular(call.plan, r, RowKind::all_minus_infinity, y, cols, A(0));
    } else {
      fill(y, cols, A(0));  // every element is masked
    }
    if (cols < rows.cols) fill(y + cols, rows.cols - cols, A(0));
    ++r;
    x += rows.x_stride;
    y += rows.y_stride;
  }
}

}  // namespace
