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

  [[gnu::always_inline]] explicit Quotient(T sum)
      : divisor_(sum), reciprocal_(T(1) / sum), smallest_(rapt::Contract<T>::smallest_normal * sum) {}

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

template <class T>
void divide(T *y, std::size_t n, T sum) {
  using S = simd<T>;
  const Quotient<T> quotient(sum);
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  std::size_t i = 0;
  for (; n - i >= block; i += block) {
    unroll<registers>(
        [&](auto r) { S::store(y + i + r * S::width, quotient(S::load(y + i + r * S::width))); });
  }
  for (; i < n; i += S::width) S::store_first(y + i, quotient(S::load_first(y + i, n - i)), n - i);
}

template <class T>
[[gnu::flatten]] void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  const SoftmaxCall<T> call(*rows);
  const bool plain = call.plan.plain();
  auto row = call.look_at(0, x, y);
  for (std::size_t r = 0; r < rows->rows; ++r) {
    // The next row's maximum is found between this one's sum and division: both wait for a fold, and the
    // other has work for the time. (One row after the other: 8 % slower at 1024 columns.)
    const bool last = r + 1 == rows->rows;
    const T *next_x = last ? x : x + rows->x_stride;
    T *next_y = last ? y : y + rows->y_stride;
    const PlainScores<T> scores{plain ? x : y};
    double sum = 0;
    if (row.max.kind == RowKind::regular) {
      sum = call.template sum_exponentials<true>(row.max, scores, row.cols, y, next_x);
    }
    const auto done = row;
    if (!last) row = call.look_at(r + 1, next_x, next_y);
    if (done.max.kind == RowKind::regular && sum == sum) [[likely]] {
      divide(y, done.cols, call.finish(done.max, r, sum, false).sum);
    } else {
      const RowKind kind = done.max.kind == RowKind::regular ? RowKind::not_a_number : done.max.kind;
      fill_irregular(call.plan, r, kind, y, done.cols, T(0));
    }
    if (done.cols < rows->cols) fill(y + done.cols, rows->cols - done.cols, T(0));
    x = next_x;
    y = next_y;
  }
}

}  // namespace
