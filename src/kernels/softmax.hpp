// softmax: a pass for the maximum, one for the exponentials and their sum, one to divide.
#pragma once

#include <cstddef>
#include <limits>

#include "kernels/contract.hpp"
#include "kernels/softmax_row.hpp"
#include "kernels/unroll.hpp"

namespace {

template <class T>
[[gnu::noinline]] void fill(T *y, std::size_t n, T value) {
  using S = simd<T>;
  const typename S::batch v(value);
  for (std::size_t i = 0; i < n; i += S::width) S::store_first(y + i, v, n - i);
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

// e / sum, correctly rounded, and 0 where that is below the smallest normal number.
//
// A product with the reciprocal, mended by its remainder, is the quotient to the last bit (Markstein) at a
// quarter of a division's cost. Elements to be flushed are zeroed first: a subnormal product costs a
// microcode assist.
template <class T>
class Quotient {
 public:
  using S = simd<T>;
  using batch = typename S::batch;

  [[gnu::always_inline]] explicit Quotient(T sum) : Quotient(sum, T(1) / sum, smallest(sum)) {}
  [[gnu::always_inline]] Quotient(T sum, T reciprocal, T smallest)
      : divisor_(sum), reciprocal_(reciprocal), smallest_(smallest) {}
  template <class Sum>
  static Sum smallest(Sum sum) {
    return rapt::Contract<T>::smallest_normal * sum;
  }

  [[gnu::always_inline]] batch operator()(batch e) const {
    const auto flushed = S::less(e, smallest_);
    if constexpr (S::masks_are_free) {
      const batch q = S::zero_where(flushed, e * reciprocal_);
      return S::zero_where(flushed, S::fma(S::fnma(q, divisor_, e), reciprocal_, q));
    } else {
      e = S::zero_where(flushed, e);
      const batch q = e * reciprocal_;
      return S::fma(S::fnma(q, divisor_, e), reciprocal_, q);
    }
  }

 private:
  batch divisor_, reciprocal_, smallest_;
};

// y = e / sum, e being y or a padded row.
template <class T>
[[gnu::always_inline]] inline void divide(const T *e, T *y, std::size_t n, const Quotient<T> &quotient) {
  using S = simd<T>;
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  std::size_t i = 0;
  for (; n - i >= block; i += block) {
    unroll<registers>(
        [&](auto r) { S::store(y + i + r * S::width, quotient(S::load(e + i + r * S::width))); });
  }
  for (; i < n; i += S::width) {
    S::store_first(y + i, quotient(e == y ? S::load_first(e + i, n - i) : S::load(e + i)), n - i);
  }
}

// Rows one after the other, [begin, end), for any row there is.
template <class T>
[[gnu::noinline, gnu::flatten]] void softmax_by_rows(const SoftmaxCall<T> &call, const T *x, T *y,
                                                     std::size_t begin, std::size_t end) {
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool plain = call.plan.plain();
  if (begin == end) return;
  auto row = call.look_at(begin, x, y);
  for (std::size_t r = begin; r < end; ++r) {
    // The next row's maximum is found between this one's sum and division: both wait for a fold, and the
    // other has work for the time. (One row after the other: 8 % slower at 1024 columns.)
    const bool last = r + 1 == end;
    const T *next_x = last ? x : x + rows.x_stride;
    T *next_y = last ? y : y + rows.y_stride;
    const PlainScores<T> scores{plain ? x : y};
    double sum = 0;
    if (row.max.kind == RowKind::regular) {
      sum = call.template sum_exponentials<Store::exact>(row.max, scores, row.cols, y, next_x);
    }
    const auto done = row;
    if (!last) row = call.look_at(r + 1, next_x, next_y);
    if (done.max.kind == RowKind::regular && sum == sum) [[likely]] {
      divide(y, y, done.cols, Quotient<T>(call.finish(done.max, r, sum, false).sum));
    } else {
      const RowKind kind = done.max.kind == RowKind::regular ? RowKind::not_a_number : done.max.kind;
      fill_irregular(call.plan, r, kind, y, done.cols, T(0));
    }
    if (done.cols < rows.cols) fill(y + done.cols, rows.cols - done.cols, T(0));
    x = next_x;
    y = next_y;
  }
}

// As many short rows as a register has lanes, their maxima and sums folded jointly: of a row of 8 columns the
// folds and what follows from them took 18 of 22 ns when each row had its own.
template <class T>
class SoftmaxGroup {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  static constexpr std::size_t rows_together = S::width;
  static constexpr std::size_t longest_row = 256;

  // `count` rows, no more than rows_together, from row `first` on, which begins at x and y. False, and
  // nothing is written, if one of them is not regular, or so large that its maximum is subtracted.
  [[gnu::always_inline]] static bool run(const SoftmaxCall<T> &call, const T *x, T *y, std::size_t first,
                                         std::size_t count) {
    const rapt::SoftmaxRows &rows = call.plan.rows;
    alignas(64) T buffer[rows_together * longest_row];  // for scores, then for exponentials
    const std::size_t pitch = (rows.cols + S::width - 1) / S::width * S::width;
    const auto x_row = [&](std::size_t j) { return x + static_cast<std::ptrdiff_t>(j) * rows.x_stride; };
    const auto y_row = [&](std::size_t j) { return y + static_cast<std::ptrdiff_t>(j) * rows.y_stride; };
    std::size_t cols[rows_together];
    batch lanes[rows_together];
    auto is_nan = S::unordered(batch(T(0)), batch(T(0)));
    for (std::size_t j = 0; j < count; ++j) {
      cols[j] = call.plan.visible_cols(first + j);
      const auto max =
          call.template take_max<Store::padded>(first + j, x_row(j), buffer + j * pitch, cols[j]);
      lanes[j] = max.lanes();
      is_nan = S::either(is_nan, max.is_nan());
    }
    for (std::size_t j = count; j < rows_together; ++j) lanes[j] = lanes[0];
    const batch max = S::fold_each(lanes, [](batch a, batch b) { return S::max(a, b); });
    const auto irregular = S::negate(S::less(S::abs(max), batch(call.plan.subtract_from)));
    if (S::any(S::either(is_nan, irregular))) [[unlikely]]
      return false;

    const ExpParts<T> exp(call.k);
    const batch round_magic(C::round_magic);
    T lowest[rows_together], magic[rows_together];
    S::store(lowest, max - batch(call.depth));
    S::store(magic, RowExp<T, false>::magic(S::fma(max, exp.log2_e, round_magic) - round_magic));
    const bool plain = call.plan.plain();
    for (std::size_t j = 0; j < count; ++j) {
      const RowExp<T, false> exponential(exp, lowest[j], magic[j]);
      T *const e = buffer + j * pitch;
      const PlainScores<T> scores{plain ? x_row(j) : e};
      SumLanes<T> sum;
      sum.set_to_sum(0, cols[j],
                     RowTerms<Store::padded, T, RowExp<T, false>, PlainScores<T>>{exponential, scores, e, e});
      lanes[j] = fold_registers(sum.lane);
    }
    for (std::size_t j = count; j < rows_together; ++j) lanes[j] = lanes[0];
    const batch sums = S::fold_each(lanes, [](batch a, batch b) { return a + b; });
    const bool any_nan = S::exp_keeps_nan && S::any(S::unordered(sums, sums));

    T sum[rows_together], reciprocal[rows_together], smallest[rows_together];
    S::store(sum, sums);
    S::store(reciprocal, S::divide(batch(T(1)), sums));
    S::store(smallest, Quotient<T>::smallest(sums));
    for (std::size_t j = 0; j < count; ++j) {
      if (any_nan && sum[j] != sum[j]) [[unlikely]] {
        fill_irregular(call.plan, first + j, RowKind::not_a_number, y_row(j), cols[j], T(0));
      } else {
        divide(buffer + j * pitch, y_row(j), cols[j], Quotient<T>(sum[j], reciprocal[j], smallest[j]));
      }
      if (cols[j] < rows.cols) fill(y_row(j) + cols[j], rows.cols - cols[j], T(0));
    }
    return true;
  }
};

template <class T>
[[gnu::flatten]] void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using Group = SoftmaxGroup<T>;
  const SoftmaxCall<T> call(*rows);
  if (rows->cols > Group::longest_row || rows->options.sinks) {
    return softmax_by_rows(call, x, y, 0, rows->rows);
  }
  for (std::size_t r = 0; r < rows->rows; r += Group::rows_together) {
    const std::size_t left = rows->rows - r;
    const std::size_t count = left < Group::rows_together ? left : Group::rows_together;
    if (!Group::run(call, x, y, r, count)) softmax_by_rows(call, x, y, r, r + count);
    x += static_cast<std::ptrdiff_t>(count) * rows->x_stride;
    y += static_cast<std::ptrdiff_t>(count) * rows->y_stride;
  }
}

}  // namespace
