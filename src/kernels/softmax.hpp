// softmax: a pass for the maximum, one for the exponentials and their sum, one to divide.
#pragma once

#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/contract.hpp"
#include "kernels/map.hpp"
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
      : Quotient(batch(sum), batch(T(1) / sum), batch(smallest(sum))) {}
  [[gnu::always_inline]] Quotient(batch sum, batch reciprocal, batch smallest)
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
    unroll<registers>([&](auto r) __attribute__((always_inline)) {
      S::store(y + i + r * S::width, quotient(S::load(e + i + r * S::width)));
    });
  }
  for (; n - i >= S::width; i += S::width) S::store(y + i, quotient(S::load(e + i)));
  if (i < n) S::store_first(y + i, quotient(e == y ? S::load_first(e + i, n - i) : S::load(e + i)), n - i);
}

// From scores of a row to its probabilities.
template <class T>
struct Probability {
  using S = simd<T>;
  RowExp<T, false> exponential;
  Quotient<T> quotient;

  [[gnu::always_inline]] Probability(const SoftmaxCall<T> &call, const ExpParts<T> &exp, const RowMax<T> &max,
                                     T sum)
      : exponential(exp, max.max, max.max_n, call.depth), quotient(sum) {}
  template <std::size_t registers>
  [[gnu::always_inline]] void operator()(typename S::batch (&v)[registers]) const {
    unroll<registers>([&](auto r) __attribute__((always_inline)) { v[r] = quotient(exponential(v[r])); });
  }
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
        divide(y, y, done.cols, Quotient<T>(sum));
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
// are busy at the same time (1024 columns: .64 ns an element with stores, .59 with each row on its own, .xx
// so).
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

// As many short rows as a register has lanes, their maxima and sums folded jointly: of a row of 8 columns the
// folds and what follows from them took 18 of 22 ns when each row had its own. `simple`: scores are their
// elements, and every row sees all columns.
template <class T, bool simple>
class SoftmaxGroup {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  using Exponential = RowExp<T, false>;
  static constexpr std::size_t rows_together = S::width;
  static constexpr std::size_t longest_row = 256;

  // `count` rows, no more than rows_together, from row `first` on, which begins at x and y.
  [[gnu::always_inline]] SoftmaxGroup(const SoftmaxCall<T> &call, const T *x, T *y, std::size_t first,
                                      std::size_t count)
      : call_(call), rows_(call.plan.rows), x_(x), y_(y), first_(first), count_(count) {
    if constexpr (!simple) {
      for (std::size_t j = 0; j < rows_together; ++j) cols_[j] = call.plan.visible_cols(first + present(j));
    }
  }

  // False, and nothing is written, if a row is not regular, or so large that its maximum is subtracted.
  [[gnu::always_inline]] bool run(bool past_caches) {
    alignas(64) T buffer[rows_together * longest_row];  // for scores, then for exponentials
    const std::size_t pitch = (rows_.cols + S::width - 1) / S::width * S::width;
    batch lanes[rows_together];
    auto is_nan = S::unordered(batch(T(0)), batch(T(0)));
    for (std::size_t j = 0; j < count_; ++j) {
      T *const v = buffer + j * pitch;
      const auto max = simple ? max_of<Store::none>(PlainScores<T>{x(j)}, 0, cols(j), v)
                              : call_.template take_max<Store::padded>(first_ + j, x(j), v, cols(j));
      lanes[j] =
          cols(j) == 0 ? batch(T(0)) : max.lanes();  // a row that sees nothing is regular here: it is filled
      is_nan = S::either(is_nan, max.is_nan());
    }
    for (std::size_t j = count_; j < rows_together; ++j) lanes[j] = lanes[0];
    if (!take_maxima(S::fold_each(lanes, [](batch a, batch b) { return S::max(a, b); }), is_nan))
      return false;

    const ExpParts<T> exp(call_.k);
    const bool plain = simple || call_.plan.plain();
    for (std::size_t j = 0; j < count_; ++j) {
      const Exponential exponential(exp, lowest_[j], magic_[j]);
      T *const e = buffer + j * pitch;
      const PlainScores<T> scores{plain ? x(j) : e};
      SumLanes<T> sum;
      sum.set_to_sum(0, cols(j),
                     RowTerms<Store::padded, T, Exponential, PlainScores<T>>{exponential, scores, e, e});
      lanes[j] = fold_registers(sum.lane);
    }
    for (std::size_t j = count_; j < rows_together; ++j) lanes[j] = lanes[0];
    take_sums(S::fold_each(lanes, [](batch a, batch b) { return a + b; }));
    for (std::size_t j = 0; j < count_; ++j) {
      const Quotient<T> quotient{batch(sum_[j]), batch(reciprocal_[j]), batch(smallest_[j])};
      T *const e = buffer + j * pitch;
      if (past_caches) {
        const auto divide_by = [&](auto &v) __attribute__((always_inline)) {
          unroll<std::extent_v<std::remove_reference_t<decltype(v)>>>([&](
              auto r) __attribute__((always_inline)) { v[r] = quotient(v[r]); });
        };
        Map<T, decltype(divide_by)>(e, y(j), cols(j), divide_by, true).finish();
      } else {
        divide(e, y(j), cols(j), quotient);
      }
    }
    finish();
    return true;
  }

 protected:
  [[gnu::always_inline]] bool take_maxima(batch max, typename S::mask is_nan) {
    const auto irregular = S::negate(S::less(S::abs(max), batch(call_.plan.subtract_from)));
    if (S::any(S::either(is_nan, irregular))) [[unlikely]]
      return false;
    const batch round_magic(C::round_magic);
    S::store(lowest_, max - batch(call_.depth));
    S::store(magic_, Exponential::magic(S::fma(max, batch(call_.k.log2_e), round_magic) - round_magic));
    return true;
  }
  [[gnu::always_inline]] void take_sums(batch sums) {
    any_nan_ = S::exp_keeps_nan && S::any(S::unordered(sums, sums));
    S::store(sum_, sums);
    S::store(reciprocal_, S::divide(batch(T(1)), sums));
    S::store(smallest_, Quotient<T>::smallest(sums));
  }
  // What is not a quotient.
  [[gnu::always_inline]] void finish() {
    if (any_nan_) [[unlikely]] {
      for (std::size_t j = 0; j < count_; ++j) {
        if (sum_[j] != sum_[j])
          fill_irregular(call_.plan, first_ + j, RowKind::not_a_number, y(j), cols(j), T(0));
      }
    }
    if constexpr (!simple) {
      for (std::size_t j = 0; j < count_; ++j) {
        if (cols(j) < rows_.cols) fill(y(j) + cols(j), rows_.cols - cols(j), T(0));
      }
    }
  }

  // j, or the last row where there is none of that number.
  [[gnu::always_inline]] std::size_t present(std::size_t j) const { return j < count_ ? j : count_ - 1; }
  [[gnu::always_inline]] std::size_t cols(std::size_t j) const { return simple ? rows_.cols : cols_[j]; }
  [[gnu::always_inline]] const T *x(std::size_t j) const {
    return x_ + static_cast<std::ptrdiff_t>(present(j)) * rows_.x_stride;
  }
  [[gnu::always_inline]] T *y(std::size_t j) const {
    return y_ + static_cast<std::ptrdiff_t>(present(j)) * rows_.y_stride;
  }

  const SoftmaxCall<T> &call_;
  const rapt::SoftmaxRows &rows_;
  const T *const x_;
  T *const y_;
  const std::size_t first_, count_;
  std::size_t cols_[rows_together];
  alignas(64) T lowest_[rows_together];  // of the rows' exponentials
  T magic_[rows_together];
  T sum_[rows_together], reciprocal_[rows_together], smallest_[rows_together];
  bool any_nan_;
};

// Such a group of rows that fit a register, `together` in each. It runs in steps, so that two groups can take
// turns: each step ends in a chain of operations that one group alone has to wait for.
template <class T, bool simple, std::size_t together>
class SoftmaxGroupInRegisters : SoftmaxGroup<T, simple> {
 public:
  using Group = SoftmaxGroup<T, simple>;
  using Group::Group, Group::rows_together;
  using typename Group::batch, typename Group::S, typename Group::Exponential;

  // What is missing of a full group is made up by its last row, which is then computed and written several
  // times.
  [[gnu::always_inline]] void load() {
    unroll<registers>([&](auto m) __attribute__((always_inline)) {
      if constexpr (together == 1) {
        v_[m] = scores(m);
      } else {
        v_[m] = S::join_halves(scores(row(m, 0)), scores(row(m, 1)));
      }
    });
  }
  [[gnu::always_inline]] bool take_maxima() {
    auto is_nan = S::unordered(batch(T(0)), batch(T(0)));
    if constexpr (MaxOf<T>::looks_for_nan) {
      unroll<registers>([&](auto m) __attribute__((always_inline)) {
        is_nan = S::either(is_nan, S::unordered(v_[m], v_[m]));
      });
    }
    return Group::take_maxima(fold([](batch a, batch b) { return S::max(a, b); }), is_nan);
  }
  [[gnu::always_inline]] void take_exponentials(const ExpParts<T> &exp) {
    unroll<registers>([&](auto m) __attribute__((always_inline)) {
      v_[m] = Exponential(exp, of_rows(this->lowest_, m), of_rows(this->magic_, m))(v_[m]);
      if constexpr (together == 1) {
        v_[m] = S::keep_first(v_[m], this->cols(m));
      } else {
        v_[m] = S::keep_first_of_halves(v_[m], this->cols(row(m, 0)), this->cols(row(m, 1)));
      }
    });
  }
  [[gnu::always_inline]] void take_sums() {
    Group::take_sums(fold([](batch a, batch b) { return a + b; }));
  }
  [[gnu::always_inline]] void write() {
    unroll<registers>([&](auto m) __attribute__((always_inline)) {
      const Quotient<T> quotient(of_rows(this->sum_, m), of_rows(this->reciprocal_, m),
                                 of_rows(this->smallest_, m));
      const batch q = quotient(v_[m]);
      S::store_first(this->y(row(m, 0)), q, this->cols(row(m, 0)));
      if constexpr (together == 2)
        S::store_first(this->y(row(m, 1)), S::upper_half(q), this->cols(row(m, 1)));
    });
    this->finish();
  }

 private:
  static constexpr std::size_t registers = rows_together / together;

  // The rows in register m, in the order that S::fold_each or S::fold_each_half wants.
  static constexpr std::size_t row(std::size_t m, std::size_t part) {
    return together == 1 ? m : m / 4 * 8 + m % 4 + part * 4;
  }
  [[gnu::always_inline]] batch scores(std::size_t j) const {
    if constexpr (simple) return PlainScores<T>{this->x(j)}.first(0, this->rows_.cols);
    return MadeScores<T>(this->call_.plan, this->x(j), this->first_ + this->present(j))
        .first(0, this->cols(j));
  }
  template <class Op>
  [[gnu::always_inline]] batch fold(Op op) const {
    if constexpr (together == 1) {
      return S::fold_each(v_, op);
    } else {
      return S::fold_each_half(v_, op);
    }
  }
  // The values of register m's rows, each in the lanes of its row.
  [[gnu::always_inline]] static batch of_rows(const T *value, std::size_t m) {
    if constexpr (together == 1) {
      return batch(value[m]);
    } else {
      return S::join_halves(batch(value[row(m, 0)]), batch(value[row(m, 1)]));
    }
  }

  batch v_[registers];
};

// Calls of(x, y, first, count) for groups of rows.
template <std::size_t rows_together, class T, class Of>
[[gnu::always_inline]] inline void for_groups(const rapt::SoftmaxRows &rows, const T *x, T *y, Of of) {
  for (std::size_t r = 0; r < rows.rows; r += rows_together) {
    const std::size_t left = rows.rows - r;
    const std::size_t count = left < rows_together ? left : rows_together;
    of(x, y, r, count);
    x += static_cast<std::ptrdiff_t>(count) * rows.x_stride;
    y += static_cast<std::ptrdiff_t>(count) * rows.y_stride;
  }
}

template <bool simple, class T>
[[gnu::noinline, gnu::flatten]] void softmax_by_groups(const SoftmaxCall<T> &call, const T *x, T *y) {
  using Group = SoftmaxGroup<T, simple>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool past_caches = simple && goes_past_caches(x, y, rows.rows * rows.cols);
  for_groups<Group::rows_together>(
      rows, x,
      y, [&](const T *x_group, T *y_group, std::size_t r, std::size_t count) __attribute__((always_inline)) {
        if (Group(call, x_group, y_group, r, count).run(past_caches)) [[likely]]
          return;
        softmax_by_rows(call, x_group, y_group, r, r + count);
      });
  if (past_caches) simd<T>::end_streaming();
}

template <bool simple, std::size_t together, class T>
[[gnu::noinline, gnu::flatten]] void softmax_in_registers(const SoftmaxCall<T> &call, const T *x, T *y) {
  using Group = SoftmaxGroupInRegisters<T, simple, together>;
  constexpr std::size_t most = Group::rows_together;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const ExpParts<T> exp(call.k);
  for_groups<2 * most>(
      rows, x,
      y, [&](const T *x_group, T *y_group, std::size_t r, std::size_t count) __attribute__((always_inline)) {
        const std::size_t half = count < most ? count : most;
        const std::size_t skip = count > most ? most : 0;  // a lone group is computed twice
        Group a(call, x_group, y_group, r, half);
        Group b(call, x_group + static_cast<std::ptrdiff_t>(skip) * rows.x_stride,
                y_group + static_cast<std::ptrdiff_t>(skip) * rows.y_stride, r + skip, count - skip);
        a.load();
        b.load();
        const bool a_is_regular = a.take_maxima();
        const bool b_is_regular = b.take_maxima();
        if (!a_is_regular || !b_is_regular) [[unlikely]] {
          return softmax_by_rows(call, x_group, y_group, r, r + count);
        }
        a.take_exponentials(exp);
        b.take_exponentials(exp);
        a.take_sums();
        b.take_sums();
        a.write();
        b.write();
      });
}

template <class T>
void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using S = simd<T>;
  const SoftmaxCall<T> call(*rows);
  const bool simple = call.plan.simple();
  if (rows->cols > SoftmaxGroup<T, true>::longest_row || rows->rows < 4 || rows->options.sinks) {
    if (call.plan.plain() && goes_past_caches(x, y, rows->rows * rows->cols)) {
      softmax_past_caches(call, x, y);
    } else {
      softmax_by_rows(call, x, y, 0, rows->rows);
    }
  } else if (rows->cols > S::width) {
    simple ? softmax_by_groups<true>(call, x, y) : softmax_by_groups<false>(call, x, y);
  } else {
    if constexpr (S::joins_halves) {
      if (rows->cols <= S::width / 2) {
        return simple ? softmax_in_registers<true, 2>(call, x, y)
                      : softmax_in_registers<false, 2>(call, x, y);
      }
    }
    simple ? softmax_in_registers<true, 1>(call, x, y) : softmax_in_registers<false, 1>(call, x, y);
  }
}

}  // namespace
