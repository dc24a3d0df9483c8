// Computes softmax row by row without the maximum: one pass for the exponentials and their sum, one to
// divide.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/row_elements.hpp"
#include "kernels/softmax/without_max.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Makes the readers of a row's elements (row_elements.hpp). Rows are read with ordinary() until one has
// excluded elements, and with excluding() from then on.
template <class A>
struct PlainRows {
  static PlainElements<A> ordinary(const ScorePlan<A> &, std::size_t, const A *x) { return {x}; }
  static FiniteElements<A> excluding(const ScorePlan<A> &, std::size_t, const A *x) { return {x}; }
};
template <class A>
struct MaskedRows {
  static MaskedElements<A> excluding(const ScorePlan<A> &plan, std::size_t r, const A *x) {
    return {x, plan.mask_row(r)};
  }
};
template <class A>
struct BiasedRows {
  template <bool excludes>
  static BiasedElements<A, excludes> elements(const ScorePlan<A> &plan, std::size_t r, const A *x) {
    return {x, plan.bias_row(r), plan.mask_row(r), typename simd<A>::batch(plan.from_natural)};
  }
  static auto ordinary(const ScorePlan<A> &plan, std::size_t r, const A *x) {
    return elements<false>(plan, r, x);
  }
  static auto excluding(const ScorePlan<A> &plan, std::size_t r, const A *x) {
    return elements<true>(plan, r, x);
  }
};

// Returns exp(sink), or NaN if the sink is outside the range of ExpWithoutMax.
template <class A>
[[gnu::noinline, gnu::flatten]] double sink_without_max(A sink) {
  using S = simd<A>;
  if (sink == -std::numeric_limits<A>::infinity()) return 0;
  ExpWithoutMax<A> exp_of(exp_constants<A>(1.0));
  typename S::batch e[1] = {typename S::batch(sink)};
  if (!exp_of(e)) return std::numeric_limits<double>::quiet_NaN();
  A lanes[S::width];
  S::store(lanes, e[0]);
  return double{lanes[0]};
}

// Stores the exponentials to y before the division. x may be y unless the rows have a bias. Rows with a score
// outside the range of ExpWithoutMax are computed with their maxima.
template <template <class> class Scores, class A>
[[gnu::noinline, gnu::flatten]] void softmax_without_max(const SoftmaxCall<A> &call, const A *x, A *y) {
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool in_place = x == y, has_mask = rows.options.mask != nullptr;
  ExpWithoutMax<A> exp_of(call.k);
  const A *const sinks = call.plan.sinks();
  TriesWithoutMax tries;
  bool has_excluded = has_mask;  // whether the previous row excludes elements; the next one is often alike
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
    const double sink = sinks ? sink_without_max(sinks[r]) : 0;
    double total = 0;
    const auto sum_row = [&](const auto &elements) RAPT_INNER {
      BlockSum<A> sum;
      // In place, the exponentials would replace elements that a row out of range needs again, so the whole
      // row is tested first.
      if (in_place && !row_is_in_range(call.k, elements, cols)) return false;
      if (!sum_without_max<Store::exact>(exp_of, elements, y, cols, sum, FetchRow<A>{next})) return false;
      total = sum.fold() + sink;
      return true;
    };
    bool inside = false;
    if (sink == sink) [[likely]] {
      if constexpr (requires { Scores<A>::ordinary(call.plan, r, x); }) {
        inside = !has_excluded && sum_row(Scores<A>::ordinary(call.plan, r, x));
      }
      if (!inside) {
        inside = sum_row(Scores<A>::excluding(call.plan, r, x));
        has_excluded = inside || has_mask;
      }
    }
    if (!inside) [[unlikely]] {
      tries.was_outside(1);
      skip(1);
      continue;
    }
    if (total > 0) [[likely]] {
      const Reciprocal<A> reciprocal(total);
      map(static_cast<const A *>(y), y, cols, PlainQuotient<A>(reciprocal.high, reciprocal.low));
    } else {  // all elements are -inf; one that is not excluded makes the row irregular
      const bool excludes = call.plan.rows.options.mask || call.plan.rows.options.bias;
      fill_irregular(call.plan, r, excludes ? RowKind::nothing_visible : RowKind::all_minus_infinity, y, cols,
                     A(0));
    }
    if (cols < rows.cols) fill(y + cols, rows.cols - cols, A(0));
    ++r;
    x += rows.x_stride;
    y += rows.y_stride;
  }
}

}  // namespace
