// Computes softmax with non-temporal stores, for outputs that do not fit in the caches.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/row_elements.hpp"
#include "kernels/softmax/without_max.hpp"
#include "kernels/vector/inner.hpp"

namespace {

// Computes the rows [begin, end), whose scores must be the elements. Computes the exponentials twice, for the
// sum and for the probabilities. While a row is summed, the previous row's probabilities are written and the
// next row is prefetched, which keeps memory and arithmetic busy.
//
//   1024 columns, AVX-512               | ns per element
//   ordinary stores                     | .64
//   exponentials twice, row after row   | .57
//   rows overlapped (this one)          | .50
template <class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_past_caches(const SoftmaxCall<A> &call, const E *x, E *y,
                                                         std::size_t begin, std::size_t end) {
  using Exponential = RowExp<A, false>;
  using Writer = Map<E, E, Probability<A>>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const ExpParts<A> exp(call.k);
  const Probability<A> none(call, exp, RowMax<A>(), 1.0);
  Writer writer(x, y, 0, none, true);  // writes the previous row's probabilities
  for (std::size_t r = begin; r < end; ++r, x += rows.x_stride, y += rows.y_stride) {
    const auto row = call.first_pass(r, x, scratch_of(y));
    if (row.max.kind != RowKind::regular || row.max.subtract) [[unlikely]] {
      softmax_by_rows(call, x, y, r, r + 1);
      continue;
    }
    if (row.summed) {
      const Probability<A> probability(call, exp, row.max, call.finish(row.max, r, row.sum, false).sum);
      Writer(x, y, row.cols, probability, true).finish_in_memory();
      if (row.cols < rows.cols) fill(y + row.cols, rows.cols - row.cols, A(0));
      continue;
    }
    const Exponential exponential(exp, row.max.max, row.max.max_n, call.depth);
    const PlainScores<E> scores{x};
    const E *ahead = r + 1 < end ? x + rows.x_stride : x;
    double sum = sum_of<A>(row.cols, row_terms<Store::none, A>(exponential, scores, nullptr, ahead, &writer));
    writer.finish();
    if (sum != sum) [[unlikely]] {
      softmax_by_rows(call, x, y, r, r + 1);
      writer = Writer(x, y, 0, none, true);
      continue;
    }
    const Probability<A> probability(call, exp, row.max, call.finish(row.max, r, sum, false).sum);
    writer = Writer(x, y, row.cols, probability, true);
    if (row.cols < rows.cols) fill(y + row.cols, rows.cols - row.cols, A(0));
  }
  writer.finish();
}

// Turns scores that are in the range of ExpWithoutMax into probabilities.
template <class A>
struct ProbabilityWithoutMax {
  using batch = typename simd<A>::batch;
  const ExpWithoutMax<A> *exp_of;
  PlainQuotient<A> quotient;

  template <std::size_t registers>
  RAPT_INNER void operator()(batch (&v)[registers]) const {
    exp_of->without_test(v);
    unroll<registers>([&](std::size_t r) RAPT_INNER { v[r] = quotient(v[r]); });
  }
};

// Rows of up to this many columns keep their exponentials. Those of two rows and the next row's elements fit
// in an L1 of 32 KB.
template <class A>
inline constexpr std::size_t longest_kept_row = 8192 / sizeof(A);

// Does the work of softmax_past_caches(), but without the maximum for rows whose scores are all in range. If
// `keeps`, the probabilities are made of the exponentials that were summed, which wait in L1 meanwhile.
//
//   rows in memory, AVX-512, ms    | 1024 columns | 2048 columns
//   exponentials twice             | 19.9         | 20.2
//   exponentials kept              | 19.1         | 16.0 to 19.5
template <bool keeps, class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_past_caches_without_max(const SoftmaxCall<A> &call, const E *x,
                                                                     E *y) {
  using batch = typename simd<A>::batch;
  using Writer = std::conditional_t<keeps, Map<A, E, PlainQuotient<A>>, Map<E, E, ProbabilityWithoutMax<A>>>;
  // Holds the exponentials of this row and of the previous one, with room for a whole last vector.
  alignas(64) A kept[2][keeps ? longest_kept_row<A> + simd<A>::width : 1];
  const rapt::SoftmaxRows &rows = call.plan.rows;
  ExpWithoutMax<A> exp_of(call.k);
  const ExpWithoutMax<A> constants = exp_of;
  TriesWithoutMax tries;
  std::size_t r = 0;
  const auto writer_of = [&](std::size_t cols, const Reciprocal<A> &reciprocal) RAPT_INNER {
    const PlainQuotient<A> quotient(batch(reciprocal.high), batch(reciprocal.low));
    if constexpr (keeps) {
      return Writer(kept[r % 2], y, cols, quotient, true);
    } else {
      return Writer(x, y, cols, ProbabilityWithoutMax<A>{&constants, quotient}, true);
    }
  };
  Writer writer = writer_of(0, Reciprocal<A>(1));  // writes the previous row's probabilities
  const auto skip = [&](std::size_t count) {
    softmax_past_caches(call, x, y, r, r + count);
    r += count;
    x += static_cast<std::ptrdiff_t>(count) * rows.x_stride;
    y += static_cast<std::ptrdiff_t>(count) * rows.y_stride;
  };
  while (r < rows.rows) {
    const std::size_t untried = tries.untried(rows.rows - r);
    const std::size_t cols = call.plan.visible_cols(r);
    const E *const next = r + 1 < rows.rows ? x + rows.x_stride : x;
    const auto beside = [&](std::size_t i) RAPT_INNER {
      FetchRow<E>{next}(i);
      writer.step();
    };
    BlockSum<A> sum;
    const bool inside = untried == 0 && sum_without_max < keeps
                            ? Store::padded
                            : Store::none > (exp_of, PlainElements<E>{x}, kept[r % 2], cols, sum, beside);
    writer.finish();
    if (!inside) [[unlikely]] {
      writer = writer_of(0, Reciprocal<A>(1));
      if (untried == 0) tries.was_outside(1);
      skip(untried > 0 ? untried : 1);
      continue;
    }
    writer = writer_of(cols, Reciprocal<A>(cols > 0 ? sum.fold() : 1));
    if (cols < rows.cols) fill(y + cols, rows.cols - cols, A(0));
    ++r;
    x += rows.x_stride;
    y += rows.y_stride;
  }
  writer.finish();
}

}  // namespace
