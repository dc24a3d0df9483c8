// softmax of rows in memory, with non-temporal stores.
#pragma once

#include <cstddef>

#include "kernels/softmax/by_rows.hpp"

namespace {

// Plain rows. The exponentials are taken twice, for the sum and for the probabilities, which costs less than
// storing them in between. A row's probabilities are written while the next row is summed and its successor
// is fetched: memory and arithmetic are busy at the same time.
//
//   1024 columns, AVX-512               | ns per element
//   by way of the caches                | .64
//   exponentials in a buffer            | .59
//   exponentials twice, row after row   | .57
//   rows overlapped (this one)          | .50
template <class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_past_caches(const SoftmaxCall<A> &call, const E *x, E *y) {
  using Exponential = RowExp<A, false>;
  using Writer = Map<E, E, Probability<A>>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const ExpParts<A> exp(call.k);
  const Probability<A> none(call, exp, RowMax<A>(), 1.0);
  Writer writer(x, y, 0, none, true);  // of the row before
  for (std::size_t r = 0; r < rows.rows; ++r, x += rows.x_stride, y += rows.y_stride) {
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
    const E *ahead = r + 1 < rows.rows ? x + rows.x_stride : x;
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
  simd<A>::end_streaming();
}

}  // namespace
