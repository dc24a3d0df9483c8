// softmax of short rows, several at once.
#pragma once

#include <cstddef>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/quotient.hpp"
#include "kernels/softmax/row.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

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
      const auto max = simple ? max_of<T>(PlainScores<T>{x(j)}, 0, cols(j))
                              : call_.template take_max<Store::padded>(first_ + j, x(j), v, cols(j));
      // A row that sees nothing is as good as regular: all of it is filled at the end.
      lanes[j] = cols(j) == 0 ? batch(T(0)) : max.lanes();
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
      const T *const e = buffer + j * pitch;
      if (past_caches) {
        Map<T, Quotient<T>>(e, y(j), cols(j), quotient, true).finish();
      } else {
        divide_padded(e, y(j), cols(j), quotient);
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
    if constexpr (simple) {
      load_from([&](std::size_t j) __attribute__((always_inline)) {
        return PlainScores<T>{this->x(j)}.first(0, this->rows_.cols);
      });
    } else {
      // By way of memory, so that the code that makes scores is there once, not for every row of a group.
      alignas(64) T made[rows_together * S::width];
      make_scores(made);
      load_from([&](std::size_t j) __attribute__((always_inline)) { return S::load(made + j * S::width); });
    }
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
  // scores(j) are those of row j.
  template <class Scores>
  [[gnu::always_inline]] void load_from(Scores scores) {
    unroll<registers>([&](auto m) __attribute__((always_inline)) {
      if constexpr (together == 1) {
        v_[m] = scores(m);
      } else {
        v_[m] = S::join_halves(scores(row(m, 0)), scores(row(m, 1)));
      }
    });
  }
  [[gnu::always_inline]] void make_scores(T *made) const {
    const ScorePlan<T> &plan = this->call_.plan;
    const bool plain = plan.plain(), masked_only = plan.masked_only();
    for (std::size_t j = 0; j < rows_together; ++j, made += S::width) {
      const std::size_t cols = this->cols(j), row_in_call = this->first_ + this->present(j);
      if (cols == 0) {
        S::store(made, batch(T(0)));  // see run()
      } else if (plain) {
        S::store(made, PlainScores<T>{this->x(j)}.first(0, cols));
      } else if (masked_only) {
        S::store(made, MaskedScores<T>{this->x(j), plan.mask_row(row_in_call)}.first(0, cols));
      } else {
        S::store(made, MadeScores<T>(plan, this->x(j), row_in_call).first(0, cols));
      }
    }
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

}  // namespace
