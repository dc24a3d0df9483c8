// Computes softmax row by row: one pass for the maximum, one for the exponentials and their sum, one to
// divide.
#pragma once

#include <cstddef>

#include "kernels/softmax/irregular.hpp"
#include "kernels/softmax/quotient.hpp"
#include "kernels/softmax/softmax_call.hpp"
#include "kernels/vector/fill.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"

namespace {

// Turns a row's scores into its probabilities.
template <class A>
struct Probability {
  using batch = typename simd<A>::batch;
  RowExp<A, false> exponential;
  Quotient<A> quotient;

  RAPT_INNER Probability(const SoftmaxCall<A> &call, const ExpParts<A> &exp, const RowMax<A> &max, double sum)
      : exponential(exp, max.max, max.max_n, call.depth), quotient(sum) {}
  RAPT_INNER batch operator()(batch v) const { return quotient(exponential(v)); }
};

// Writes the probabilities of a row whose exponentials are not stored in its output.
template <class E, class A>
RAPT_INNER inline void write_from_scores(const SoftmaxCall<A> &call, const RowMax<A> &max, double sum,
                                         std::size_t r, const E *x, E *y, std::size_t cols) {
  const ExpParts<A> exp(call.k);
  with_scores(call.plan, r, x, scratch_of(y), [&](const auto &scores) RAPT_INNER {
    if constexpr (!output_is_scratch<E>) {
      if (max.subtract) [[unlikely]] {
        const RowExp<A, true> exponential(exp, max.max, 0, call.depth);
        const Quotient<A> quotient(sum);
        return map_scores(scores, y, cols,
                          [&](typename simd<A>::batch v) RAPT_INNER { return quotient(exponential(v)); });
      }
    }
    map_scores(scores, y, cols, Probability<A>(call, exp, max, sum));
  });
}

// Computes the rows [begin, end), with any options.
template <class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_by_rows(const SoftmaxCall<A> &call, const E *x, E *y,
                                                     std::size_t begin, std::size_t end) {
  constexpr Store kept = output_is_scratch<E> ? Store::exact : Store::none;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  // If two rows fit in L1, the next row's maximum is found between this row's sum and its division. Sum and
  // maximum both end in a fold, and the CPU can fill the wait for one with the other. Without this, 1024
  // columns are 8 % slower.
  const bool together = rows.cols <= 16384 / sizeof(E);
  if (begin == end) return;
  auto row = call.template first_pass<true>(begin, x, scratch_of(y));
  for (std::size_t r = begin; r < end; ++r) {
    const bool last = r + 1 == end;
    const E *next_x = last ? x : x + rows.x_stride;
    E *next_y = last ? y : y + rows.y_stride;
    auto done = row;
    const bool regular = done.max.kind == RowKind::regular;
    if (regular && !done.summed) {
      done.sum = with_scores(call.plan, r, x, scratch_of(y), [&](const auto &scores) RAPT_INNER {
        const E *const ahead = together ? next_x : x;
        if (done.narrow)
          return call.template sum_narrow<kept>(done.max, scores, done.cols, scratch_of(y), ahead);
        return call.template sum_exponentials<kept>(done.max, scores, done.cols, scratch_of(y), ahead);
      });
    }
    if (!last && together) row = call.template first_pass<true>(r + 1, next_x, scratch_of(next_y));
    if (regular && done.sum == done.sum) [[likely]] {
      const double sum = call.finish(done.max, r, done.sum, false).sum;
      if (done.summed || !output_is_scratch<E>) {
        write_from_scores(call, done.max, sum, r, x, y, done.cols);
      } else if (done.narrow) {
        const Reciprocal<A> reciprocal(sum);
        map(y, y, done.cols, PlainQuotient<A>(reciprocal.high, reciprocal.low));
      } else {
        map(y, y, done.cols, Quotient<A>(sum));
      }
    } else {
      fill_irregular(call.plan, r, regular ? RowKind::not_a_number : done.max.kind, y, done.cols, A(0));
    }
    if (done.cols < rows.cols) fill(y + done.cols, rows.cols - done.cols, A(0));
    if (!last && !together) row = call.template first_pass<true>(r + 1, next_x, scratch_of(next_y));
    x = next_x;
    y = next_y;
  }
}

}  // namespace
