// softmax, row by row: a pass for the maximum, one for the exponentials and their sum, one to divide.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/softmax/quotient.hpp"
#include "kernels/softmax/row.hpp"
#include "kernels/vector/map.hpp"

namespace {

template <class T>
[[gnu::noinline]] void fill(T *y, std::size_t n, T value) {
  using S = simd<T>;
  const typename S::batch v(value);
  std::size_t i = 0;
  for (; n - i >= S::width; i += S::width) S::store(y + i, v);
  if (i < n) S::store_first(y + i, v, n - i);
}

// A row that has no probabilities: NaN where an element is visible and the row's kind says so, else
// `excluded`.
template <class T>
[[gnu::noinline]] void fill_irregular(const ScorePlan<T> &plan, std::size_t r, RowKind kind, T *y,
                                      std::size_t cols, T excluded) {
  const bool is_nan = kind == RowKind::not_a_number ||
                      (kind == RowKind::all_minus_infinity && !plan.rows.options.empty_rows_are_zero);
  for (std::size_t i = 0; i < cols; ++i) {
    y[i] = is_nan && !plan.excluded(r, i) ? std::numeric_limits<T>::quiet_NaN() : excluded;
  }
}

// From scores of a row to its probabilities.
template <class T>
struct Probability {
  using batch = typename simd<T>::batch;
  RowExp<T, false> exponential;
  Quotient<T> quotient;

  [[gnu::always_inline]] Probability(const SoftmaxCall<T> &call, const ExpParts<T> &exp, const RowMax<T> &max,
                                     T sum)
      : exponential(exp, max.max, max.max_n, call.depth), quotient(sum) {}
  [[gnu::always_inline]] batch operator()(batch v) const { return quotient(exponential(v)); }
};

// Rows one after the other, [begin, end), for any row there is.
template <class T>
[[gnu::noinline, gnu::flatten]] void softmax_by_rows(const SoftmaxCall<T> &call, const T *x, T *y,
                                                     std::size_t begin, std::size_t end) {
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool plain = call.plan.plain();
  // The next row's maximum is found between this one's sum and division: both wait for a fold, and the other
  // has work for the time. (One row after the other: 8 % slower at 1024 columns.) But two rows are to fit L1.
  const bool together = rows.cols <= 16384 / sizeof(T);
  if (begin == end) return;
  auto row = call.look_at(begin, x, y);
  for (std::size_t r = begin; r < end; ++r) {
    const bool last = r + 1 == end;
    const T *next_x = last ? x : x + rows.x_stride;
    T *next_y = last ? y : y + rows.y_stride;
    const PlainScores<T> scores{plain ? x : y};
    auto done = row;
    const bool regular = done.max.kind == RowKind::regular;
    if (regular && !done.summed) {
      done.sum =
          call.template sum_exponentials<Store::exact>(done.max, scores, done.cols, y, together ? next_x : x);
    }
    if (!last && together) row = call.look_at(r + 1, next_x, next_y);
    if (regular && done.sum == done.sum) [[likely]] {
      const T sum = call.finish(done.max, r, done.sum, false).sum;
      if (done.summed) {
        const ExpParts<T> exp(call.k);
        map(scores.v, y, done.cols, Probability<T>(call, exp, done.max, sum));
      } else {
        map(y, y, done.cols, Quotient<T>(sum));
      }
    } else {
      fill_irregular(call.plan, r, regular ? RowKind::not_a_number : done.max.kind, y, done.cols, T(0));
    }
    if (done.cols < rows.cols) fill(y + done.cols, rows.cols - done.cols, T(0));
    if (!last && !together) row = call.look_at(r + 1, next_x, next_y);
    x = next_x;
    y = next_y;
  }
}

// Rows in memory, whose probabilities go past the caches. The exponentials are taken twice, for the sum and
// for the probabilities, which costs less than storing them in between; and a row's probabilities are written
// while the next one's exponentials are summed and the one after is fetched, so that memory and arithmetic
// are busy at the same time. 1024 columns, ns an element on AVX-512: .64 by way of the caches; .59 with the
// exponentials in a buffer and each row on its own; .57 without the buffer; .50 so.
template <class T>
[[gnu::noinline, gnu::flatten]] void softmax_past_caches(const SoftmaxCall<T> &call, const T *x, T *y) {
  using Exponential = RowExp<T, false>;
  using Writer = Map<T, Probability<T>>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const ExpParts<T> exp(call.k);
  const Probability<T> none(call, exp, RowMax<T>(), T(1));
  Writer writer(x, y, 0, none, true);  // of the row before
  for (std::size_t r = 0; r < rows.rows; ++r, x += rows.x_stride, y += rows.y_stride) {
    const auto row = call.look_at(r, x, y);
    if (row.max.kind != RowKind::regular || row.max.subtract) [[unlikely]] {
      softmax_by_rows(call, x, y, r, r + 1);
      continue;
    }
    if (row.summed) {
      const Probability<T> probability(call, exp, row.max, call.finish(row.max, r, row.sum, false).sum);
      Writer(x, y, row.cols, probability, true).finish_in_memory();
      if (row.cols < rows.cols) fill(y + row.cols, rows.cols - row.cols, T(0));
      continue;
    }
    const Exponential exponential(exp, row.max.max, row.max.max_n, call.depth);
    const PlainScores<T> scores{x};
    const T *ahead = r + 1 < rows.rows ? x + rows.x_stride : x;
    double sum = sum_of<T>(row.cols, RowTerms<Store::none, T, Exponential, PlainScores<T>, Writer>{
                                         exponential, scores, nullptr, ahead, &writer});
    writer.finish();
    if (sum != sum) [[unlikely]] {
      softmax_by_rows(call, x, y, r, r + 1);
      writer = Writer(x, y, 0, none, true);
      continue;
    }
    const Probability<T> probability(call, exp, row.max, call.finish(row.max, r, sum, false).sum);
    writer = Writer(x, y, row.cols, probability, true);
    if (row.cols < rows.cols) fill(y + row.cols, rows.cols - row.cols, T(0));
  }
  writer.finish();
  simd<T>::end_streaming();
}

}  // namespace
