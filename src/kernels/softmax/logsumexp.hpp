// Computes logsumexp. One pass finds the maximum, and one sums the exponentials.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "kernels/softmax/softmax_call.hpp"

namespace {

template <bool plain, class E, class A>
[[gnu::noinline, gnu::flatten]] A logsumexp_row(const SoftmaxCall<A> &call, const E *x, std::size_t r) {
  const auto scores = [&] {
    if constexpr (plain) {
      return PlainScores<E>{x};
    } else {
      return ComputedScores<E>(call.plan, x, r);
    }
  }();
  constexpr A infinity = std::numeric_limits<A>::infinity();
  const A *sinks = call.plan.sinks();
  auto [cols, row, summed, sum, narrow] = call.first_pass(r, scores, call.plan.visible_cols(r));
  if (row.kind == RowKind::not_a_number) return std::numeric_limits<A>::quiet_NaN();
  if (row.kind == RowKind::nothing_visible) return sinks ? sinks[r] : -infinity;
  if (row.kind == RowKind::all_minus_infinity) return -infinity;
  if (!summed) {
    sum = call.template sum_exponentials<Store::none>(row, scores, cols, nullptr, x);
  }
  if (sum != sum) return std::numeric_limits<A>::quiet_NaN();
  const A result =
      static_cast<A>(std::fma(call.plan.c, double{row.max}, call.finish(row, r, sum, true).log_sum));
  return sinks && result < sinks[r] ? sinks[r] : result;  // rounding may give less than the sink
}

template <class E>
void logsumexp(const E *x, rapt::Arithmetic<E> *out, const rapt::SoftmaxRows *rows) {
  const SoftmaxCall<rapt::Arithmetic<E>> call(*rows);
  const bool plain = call.plan.plain();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride) {
    out[r] = plain ? logsumexp_row<true>(call, x, r) : logsumexp_row<false>(call, x, r);
  }
}

}  // namespace
