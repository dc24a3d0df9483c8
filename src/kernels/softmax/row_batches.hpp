// Computes softmax of several short rows at once, through a buffer.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/by_rows.hpp"
#include "kernels/softmax/quotient.hpp"
#include "kernels/softmax/row_elements.hpp"
#include "kernels/softmax/softmax_call.hpp"
#include "kernels/softmax/without_max.hpp"
#include "kernels/vector/fill.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/map.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

inline constexpr std::size_t longest_batched_row = 256;

// Computes as many short rows as a vector has lanes, and folds their maxima and sums together. Separate
// folds, and the work that waits for them, take 18 of a row's 22 ns at 8 columns. `simple` says that scores
// are the elements, and that every row sees all columns.
template <class E, bool simple>
class RowBatch {
 public:
  using A = rapt::Arithmetic<E>;
  using S = simd<A>;
  using C = rapt::SoftmaxContract<A>;
  using batch = typename S::batch;
  using D = simd<double>;
  using Exponential = RowExp<A, false>;
  static constexpr std::size_t rows_together = S::width;

  // Makes a row batch of `count` rows, at most rows_together, from row `first` on, which begins at x and y.
  RAPT_INNER RowBatch(const SoftmaxCall<A> &call, const E *x, E *y, std::size_t first, std::size_t count)
      : call_(call), rows_(call.plan.rows), x_(x), y_(y), first_(first), count_(count) {
    if constexpr (!simple) {
      for (std::size_t j = 0; j < rows_together; ++j) cols_[j] = call.plan.visible_cols(first + present(j));
    }
  }

  // Computes the rows without their maxima. Returns false and writes nothing if a score is out of range.
  RAPT_INNER bool run_without_max(ExpWithoutMax<A> &exp_of, bool past_caches) {
    alignas(64) A buffer[rows_together * longest_batched_row];
    const std::size_t vectors = (rows_.cols + S::width - 1) / S::width;
    typename D::batch lanes[rows_together];
    exp_of.forget();
    if (!sum_in(exp_of, vectors, buffer, lanes)) [[unlikely]]
      return false;
    if (std::is_same_v<A, float> || (simple && vectors <= 4)) {
      for (std::size_t j = count_; j < rows_together; ++j) lanes[j] = lanes[0];
      fold_lanes_of_rows(lanes);
    } else {
      for (std::size_t j = count_; j < rows_together; ++j) sum_[j] = sum_[0];
    }
    if constexpr (!simple) {
      for (double &sum : sum_) sum = sum > 0 ? sum : 1;  // a sum is 0 if all elements are excluded
    }
    compute_sums();
    write<PlainQuotient<A>>(buffer, vectors * S::width, past_caches);
    if constexpr (!simple) fill_after_rows();
    return true;
  }

  // Computes the rows with their maxima. Returns false and writes nothing if a row is irregular or needs
  // RowMax::subtract.
  RAPT_INNER bool run(bool past_caches) {
    alignas(64) A buffer[rows_together * longest_batched_row];  // for scores, then for exponentials
    const std::size_t pitch = (rows_.cols + S::width - 1) / S::width * S::width;
    batch lanes[rows_together];
    auto is_nan = S::unordered(batch(A(0)), batch(A(0)));
    for (std::size_t j = 0; j < count_; ++j) {
      A *const v = buffer + j * pitch;
      const auto max = simple ? max_of<A>(PlainScores<E>{x(j)}, 0, cols(j))
                              : call_.template find_max<Store::padded>(first_ + j, x(j), v, cols(j));
      // A row that sees no columns is treated as regular here. finish() fills it later.
      lanes[j] = cols(j) == 0 ? batch(A(0)) : max.lanes();
      is_nan = S::either(is_nan, max.is_nan());
    }
    for (std::size_t j = count_; j < rows_together; ++j) lanes[j] = lanes[0];
    if (!find_maxima(S::fold_each(lanes, [](batch a, batch b) { return S::max(a, b); }), is_nan))
      return false;

    const ExpParts<A> exp(call_.k);
    const bool plain = simple || call_.plan.plain();
    for (std::size_t j = 0; j < count_; ++j) {
      const Exponential exponential(exp, lowest_[j], magic_[j]);
      A *const e = buffer + j * pitch;
      sum_[j] = with_row_scores(plain, j, e, [&](const auto &scores) RAPT_INNER {
        return sum_of<A>(cols(j), row_terms<Store::padded>(exponential, scores, e, e));
      });
    }
    for (std::size_t j = count_; j < rows_together; ++j) sum_[j] = sum_[0];
    compute_sums();
    write<Quotient<A>>(buffer, pitch, past_caches);
    finish();
    return true;
  }

 protected:
  RAPT_INNER bool find_maxima(batch max, typename S::mask is_nan) {
    const auto irregular = S::negate(S::less(S::abs(max), batch(call_.plan.subtract_from)));
    if (S::any(S::either(is_nan, irregular))) [[unlikely]]
      return false;
    const batch round_magic(C::round_magic);
    S::store(lowest_, max - batch(call_.depth));
    S::store(magic_, Exponential::magic(S::fma(max, batch(call_.k.log2_e), round_magic) - round_magic));
    return true;
  }
  // Stores the exponentials of all rows to `buffer`. If f64 rows are summed one by one, stores row j's sum to
  // sum_[j]. Otherwise stores the lanes of the sum to lanes[j], not folded. Returns false if a score is out
  // of range.
  RAPT_INNER bool sum_in(ExpWithoutMax<A> &exp_of, std::size_t vectors, A *buffer, typename D::batch *lanes) {
    const auto row_by_row = [&](auto elements) RAPT_INNER {
      for (std::size_t j = 0; j < count_; ++j) {
        BlockSum<A> sum;
        if (!sum_without_max<Store::padded>(exp_of, elements(j), buffer + j * vectors * S::width, cols(j),
                                            sum, [](std::size_t) {}))
          return false;
        if constexpr (std::is_same_v<A, double>) {
          sum_[j] = sum.fold();
        } else {
          lanes[j] = sum.folded();
        }
      }
      return true;
    };
    const auto plain = [&](std::size_t j) RAPT_INNER { return PlainElements<E>{x(j)}; };
    if constexpr (simple) {
      switch (vectors) {
        case 2:
          return short_rows<2>(exp_of, buffer, lanes);
        case 3:
          return short_rows<3>(exp_of, buffer, lanes);
        case 4:
          return short_rows<4>(exp_of, buffer, lanes);
        default:
          return row_by_row(plain);
      }
    } else {
      const ScorePlan<A> &plan = call_.plan;
      if (plan.plain()) return row_by_row(plain);
      if (plan.masked_only()) {
        return row_by_row([&](std::size_t j) RAPT_INNER {
          return MaskedElements<E>{x(j), plan.mask_row(first_ + j)};
        });
      }
      const batch from_natural(plan.from_natural);
      return row_by_row([&](std::size_t j) RAPT_INNER {
        return BiasedElements<E, true>{x(j), plan.bias_row(first_ + j), plan.mask_row(first_ + j),
                                       from_natural};
      });
    }
  }
  // Computes rows of K vectors, as many at once as fit in the registers. Stores the exponentials to `buffer`,
  // and the lanes of their sums to `lanes`. Returns false if a score is out of range.
  template <std::size_t K>
  RAPT_INNER bool short_rows(ExpWithoutMax<A> &exp_of, A *buffer, typename D::batch *lanes) const {
    constexpr std::size_t rows = K < ExpWithoutMax<A>::together ? ExpWithoutMax<A>::together / K : 1;
    constexpr std::size_t vectors_at_once = BlockLanes<A>::together;
    const std::size_t last = rows_.cols - (K - 1) * S::width;  // elements in a row's last vector
    for (std::size_t j = 0; j < count_; j += rows) {
      batch v[rows * K];
      unroll<rows * K>([&](std::size_t i) RAPT_INNER {
        const E *const from = x(j + i / K) + i % K * S::width;
        v[i] = i % K == K - 1 ? S::load_first(from, last) : S::load(from);
      });
      if (!exp_of(v)) [[unlikely]]
        return false;
      unroll<rows>([&](std::size_t q) RAPT_INNER {
        v[q * K + K - 1] = S::keep_first(v[q * K + K - 1], last);
        if (j + q >= rows_together) return;
        unroll<K>([&](std::size_t i)
                      RAPT_INNER { S::store(buffer + ((j + q) * K + i) * S::width, v[q * K + i]); });
        BlockSum<A> sum;
        sum.add([&](std::size_t first, batch(&term)[vectors_at_once]) RAPT_INNER {
          unroll<vectors_at_once>([&](std::size_t r) RAPT_INNER {
            term[r] = first + r < K ? v[q * K + (first + r) % K] : batch(A(0));
          });
        });
        lanes[j + q] = sum.folded();
      });
    }
    return true;
  }
  RAPT_INNER void fold_lanes_of_rows(const typename D::batch (&lanes)[rows_together]) {
    unroll<rows_together / D::width>([&](std::size_t g) RAPT_INNER {
      typename D::batch of_vector[D::width];
      unroll<D::width>([&](std::size_t i) RAPT_INNER { of_vector[i] = lanes[g * D::width + i]; });
      D::store(sum_ + g * D::width,
               D::fold_each(of_vector, [](typename D::batch a, typename D::batch b) { return a + b; }));
    });
  }
  // Computes the reciprocals of the sums.
  RAPT_INNER void compute_sums() {
    const Reciprocals<A> reciprocals(sum_);
    any_nan_ = S::exp_keeps_nan && S::any(S::unordered(reciprocals.high, reciprocals.high));
    S::store(high_, reciprocals.high);
    S::store(low_, reciprocals.low);
  }
  // Divides the exponentials of the buffer, and writes the quotients.
  template <class Q>
  RAPT_INNER void write(const A *buffer, std::size_t pitch, bool past_caches) const {
    for (std::size_t j = 0; j < count_; ++j) {
      const Q quotient{batch(high_[j]), batch(low_[j])};
      const A *const e = buffer + j * pitch;
      if (past_caches) {
        Map<A, E, Q>(e, y(j), cols(j), quotient, true).finish();
      } else {
        divide_padded(e, y(j), cols(j), quotient);
      }
    }
  }
  // Writes the rows that have a NaN, and the columns that a row does not see.
  RAPT_INNER void finish() {
    if (any_nan_) [[unlikely]] {
      for (std::size_t j = 0; j < count_; ++j) {
        if (sum_[j] != sum_[j])
          fill_irregular(call_.plan, first_ + j, RowKind::not_a_number, y(j), cols(j), A(0));
      }
    }
    if constexpr (!simple) fill_after_rows();
  }
  RAPT_INNER void fill_after_rows() const {
    for (std::size_t j = 0; j < count_; ++j) {
      if (cols(j) < rows_.cols) fill(y(j) + cols(j), rows_.cols - cols(j), A(0));
    }
  }

  // Calls f with the scores of row j, which are the row's elements or come from the buffer.
  template <class F>
  RAPT_INNER auto with_row_scores(bool plain, std::size_t j, const A *scores, F f) const {
    if constexpr (std::is_same_v<E, A>) {
      return f(PlainScores<E>{plain ? x(j) : scores});
    } else {
      return plain ? f(PlainScores<E>{x(j)}) : f(PlainScores<A>{scores});
    }
  }

  // Returns j, or the last row if row j does not exist.
  RAPT_INNER std::size_t present(std::size_t j) const { return j < count_ ? j : count_ - 1; }
  RAPT_INNER std::size_t cols(std::size_t j) const { return simple ? rows_.cols : cols_[j]; }
  RAPT_INNER const E *x(std::size_t j) const {
    return x_ + static_cast<std::ptrdiff_t>(present(j)) * rows_.x_stride;
  }
  RAPT_INNER E *y(std::size_t j) const {
    return y_ + static_cast<std::ptrdiff_t>(present(j)) * rows_.y_stride;
  }

  const SoftmaxCall<A> &call_;
  const rapt::SoftmaxRows &rows_;
  const E *const x_;
  E *const y_;
  const std::size_t first_, count_;
  std::size_t cols_[rows_together];
  alignas(64) A lowest_[rows_together];  // a score below this has the exponential 0
  A magic_[rows_together];
  double sum_[rows_together];
  A high_[rows_together], low_[rows_together];  // the reciprocals of the sums
  bool any_nan_;
};

// Calls of(x, y, first, count) for each batch of up to rows_together rows.
template <std::size_t rows_together, class E, class Of>
RAPT_INNER inline void for_row_batches(const rapt::SoftmaxRows &rows, const E *x, E *y, Of of) {
  for (std::size_t r = 0; r < rows.rows; r += rows_together) {
    const std::size_t left = rows.rows - r;
    const std::size_t count = left < rows_together ? left : rows_together;
    of(x, y, r, count);
    x += static_cast<std::ptrdiff_t>(count) * rows.x_stride;
    y += static_cast<std::ptrdiff_t>(count) * rows.y_stride;
  }
}

template <bool simple, class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_by_row_batches(const SoftmaxCall<A> &call, const E *x, E *y) {
  using Batch = RowBatch<E, simple>;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const bool past_caches = simple && goes_past_caches(x, y, rows.rows * rows.cols);
  ExpWithoutMax<A> exp_of(call.k);
  const bool serves = ExpWithoutMax<A>::serves(call.k) &&
                      (call.plan.plain() || call.plan.masked_only() || call.plan.biased());
  TriesWithoutMax tries;
  for_row_batches<Batch::rows_together>(
      rows, x, y, [&](const E *x_rows, E *y_rows, std::size_t r, std::size_t count) RAPT_INNER {
        Batch row_batch(call, x_rows, y_rows, r, count);
        if constexpr (std::is_same_v<E, A>) {
          if (serves && tries.untried(count) == 0) [[likely]] {
            if (row_batch.run_without_max(exp_of, past_caches)) [[likely]]
              return;
            tries.was_outside(count);
          }
        }
        if (row_batch.run(past_caches)) [[likely]]
          return;
        softmax_by_rows(call, x_rows, y_rows, r, r + count);
      });
  if (past_caches) simd<A>::end_streaming();
}

}  // namespace
