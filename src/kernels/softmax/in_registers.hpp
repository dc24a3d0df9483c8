// Computes softmax of several rows at once. Each row fits in a register or in half of one.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/softmax/row_batches.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

// Computes a batch of rows, with `together` rows in each register. Each step is a function that ends in a
// long dependency chain, so a caller can interleave the steps of two batches. If `gapless`, the rows fill the
// registers and are contiguous in memory, so registers are loaded and stored whole. A gapless batch has all
// of its rows, and is computed only without maxima.
template <class E, bool simple, std::size_t together, bool gapless = false>
class RowBatchInRegisters : RowBatch<E, simple> {
 public:
  using Batch = RowBatch<E, simple>;
  using Batch::RowBatch, Batch::rows_together;
  using typename Batch::A;
  using typename Batch::batch, typename Batch::S, typename Batch::Exponential;

  // Loads the scores. If the batch has too few rows, its last row is loaded in place of the missing ones, and
  // then computed and written several times.
  RAPT_INNER void load() {
    if constexpr (simple) {
      load_from([&](std::size_t j)
                    RAPT_INNER { return PlainScores<E>{this->x(j)}.first(0, this->rows_.cols); });
    } else {
      // Scores go through memory, so that the code that computes them exists once instead of once per row.
      alignas(64) A scores[rows_together * S::width];
      make_scores(scores);
      load_from([&](std::size_t j) RAPT_INNER { return S::load(scores + j * S::width); });
    }
  }
  RAPT_INNER bool find_maxima() {
    auto is_nan = S::unordered(batch(A(0)), batch(A(0)));
    if constexpr (MaxOf<A>::looks_for_nan) {
      unroll<registers>([&](std::size_t m)
                            RAPT_INNER { is_nan = S::either(is_nan, S::unordered(v_[m], v_[m])); });
    }
    return Batch::find_maxima(fold([](batch a, batch b) { return S::max(a, b); }), is_nan);
  }
  RAPT_INNER void compute_exponentials(const ExpParts<A> &exp) {
    unroll<registers>([&](std::size_t m) RAPT_INNER {
      v_[m] = Exponential(exp, of_rows(this->lowest_, m), of_rows(this->magic_, m))(v_[m]);
    });
    keep_visible();
  }
  // Loads the elements, with 0 past the ends of rows.
  RAPT_INNER void load_elements() requires(simple) {
    if constexpr (gapless) {
      unroll<registers>([&](std::size_t m) RAPT_INNER { v_[m] = S::load(this->x(0) + m * S::width); });
    } else {
      load_from([&](std::size_t j) RAPT_INNER { return S::load_first(this->x(j), this->rows_.cols); });
    }
  }
  // Computes the exponentials without maxima.
  RAPT_INNER void compute_exponentials(ExpWithoutMax<A> &exp_of) {
    constexpr std::size_t at_once =
        registers < ExpWithoutMax<A>::together ? registers : ExpWithoutMax<A>::together;
    unroll<registers / at_once>([&](std::size_t g) RAPT_INNER {
      batch v[at_once];
      unroll<at_once>([&](std::size_t m) RAPT_INNER { v[m] = v_[g * at_once + m]; });
      exp_of(v);
      unroll<at_once>([&](std::size_t m) RAPT_INNER { v_[g * at_once + m] = v[m]; });
    });
    keep_visible();
  }
  RAPT_INNER void compute_sums() {
    using D = simd<double>;
    typename D::batch lanes[rows_together];
    unroll<registers>([&](std::size_t m) RAPT_INNER {
      if constexpr (std::is_same_v<A, double>) {
        lanes[m] = v_[m];
      } else if constexpr (together == 1) {
        lanes[m] = S::template widened<0>(v_[m]) + S::template widened<1>(v_[m]);
      } else {
        lanes[row(m, 0)] = S::template widened<0>(v_[m]);
        lanes[row(m, 1)] = S::template widened<1>(v_[m]);
      }
    });
    this->fold_lanes_of_rows(lanes);
    Batch::compute_sums();
  }
  template <class Q>
  RAPT_INNER void write() {
    unroll<registers>([&](auto m) RAPT_INNER {
      const Q quotient(of_rows(this->high_, m), of_rows(this->low_, m));
      const batch q = quotient(v_[m]);
      if constexpr (gapless) {
        S::store(this->y(0) + m * S::width, q);
      } else {
        S::store_first(this->y(row(m, 0)), q, this->cols(row(m, 0)));
        if constexpr (together == 2)
          S::store_first(this->y(row(m, 1)), S::upper_half(q), this->cols(row(m, 1)));
      }
    });
    this->finish();
  }

 private:
  static constexpr std::size_t registers = rows_together / together;

  RAPT_INNER void keep_visible() {
    if constexpr (gapless) return;
    unroll<registers>([&](std::size_t m) RAPT_INNER {
      if constexpr (together == 1) {
        v_[m] = S::keep_first(v_[m], this->cols(m));
      } else {
        v_[m] = S::keep_first_of_halves(v_[m], this->cols(row(m, 0)), this->cols(row(m, 1)));
      }
    });
  }
  // Returns the row that is in half `part` of register m, or fills it if `together` is 1. S::fold_each and
  // S::fold_each_half need this order.
  static constexpr std::size_t row(std::size_t m, std::size_t part) {
    if (gapless) return together * m + part;
    return together == 1 ? m : m / 4 * 8 + m % 4 + part * 4;
  }
  // Fills the registers with scores(j), the scores of row j.
  template <class Scores>
  RAPT_INNER void load_from(Scores scores) {
    unroll<registers>([&](std::size_t m) RAPT_INNER {
      if constexpr (together == 1) {
        v_[m] = scores(m);
      } else {
        v_[m] = S::join_halves(scores(row(m, 0)), scores(row(m, 1)));
      }
    });
  }
  RAPT_INNER void make_scores(A *scores) const {
    const ScorePlan<A> &plan = this->call_.plan;
    const bool plain = plan.plain(), masked_only = plan.masked_only();
    for (std::size_t j = 0; j < rows_together; ++j, scores += S::width) {
      const std::size_t cols = this->cols(j), row_in_call = this->first_ + this->present(j);
      if (cols == 0) {
        S::store(scores, batch(A(0)));  // counts as a regular row until finish() fills it
      } else if (plain) {
        S::store(scores, PlainScores<E>{this->x(j)}.first(0, cols));
      } else if (masked_only) {
        S::store(scores, MaskedScores<E>{this->x(j), plan.mask_row(row_in_call)}.first(0, cols));
      } else {
        S::store(scores, ComputedScores<E>(plan, this->x(j), row_in_call).first(0, cols));
      }
    }
  }
  template <class Op>
  RAPT_INNER batch fold(Op op) const {
    if constexpr (together == 1) {
      return S::fold_each(v_, op);
    } else {
      return S::fold_each_half(v_, op);
    }
  }
  // Returns value[j] of each row j in register m, in all lanes of that row.
  RAPT_INNER static batch of_rows(const A *value, std::size_t m) {
    if constexpr (together == 1) {
      return batch(value[m]);
    } else {
      return S::join_halves(batch(value[row(m, 0)]), batch(value[row(m, 1)]));
    }
  }

  batch v_[registers];
};

template <bool simple, std::size_t together, bool gapless, class E, class A>
[[gnu::noinline, gnu::flatten]] void softmax_in_registers(const SoftmaxCall<A> &call, const E *x, E *y) {
  using Batch = RowBatchInRegisters<E, simple, together>;
  using WithoutMax = RowBatchInRegisters<E, simple, together, gapless>;
  constexpr std::size_t most = Batch::rows_together;
  const rapt::SoftmaxRows &rows = call.plan.rows;
  const ExpParts<A> exp(call.k);
  ExpWithoutMax<A> exp_of(call.k);
  const bool serves = ExpWithoutMax<A>::serves(call.k);
  TriesWithoutMax tries;
  for_row_batches<2 * most>(
      rows, x, y, [&](const E *x_rows, E *y_rows, std::size_t r, std::size_t count) RAPT_INNER {
        const std::size_t half = count < most ? count : most;
        const std::size_t skip = count > most ? most : 0;  // a single batch is computed twice, as a and b
        const E *const x_b = x_rows + static_cast<std::ptrdiff_t>(skip) * rows.x_stride;
        E *const y_b = y_rows + static_cast<std::ptrdiff_t>(skip) * rows.y_stride;
        if constexpr (simple && std::is_same_v<E, A>) {
          if (serves && tries.untried(count) == 0) [[likely]] {
            WithoutMax a(call, x_rows, y_rows, r, half);
            WithoutMax b(call, x_b, y_b, r + skip, count - skip);
            exp_of.forget();
            a.load_elements();
            a.compute_exponentials(exp_of);
            b.load_elements();
            b.compute_exponentials(exp_of);
            if (!exp_of.left_range()) [[likely]] {
              a.compute_sums();
              b.compute_sums();
              a.template write<PlainQuotient<A>>();
              b.template write<PlainQuotient<A>>();
              return;
            }
            tries.was_outside(count);
          }
        }
        Batch a(call, x_rows, y_rows, r, half);
        Batch b(call, x_b, y_b, r + skip, count - skip);
        a.load();
        b.load();
        const bool a_is_regular = a.find_maxima();
        const bool b_is_regular = b.find_maxima();
        if (!a_is_regular || !b_is_regular) [[unlikely]] {
          return softmax_by_rows(call, x_rows, y_rows, r, r + count);
        }
        a.compute_exponentials(exp);
        b.compute_exponentials(exp);
        a.compute_sums();
        b.compute_sums();
        a.template write<Quotient<A>>();
        b.template write<Quotient<A>>();
      });
}

template <bool simple, std::size_t together, class E, class A>
void softmax_in_registers(const SoftmaxCall<A> &call, const E *x, E *y) {
  const rapt::SoftmaxRows &rows = call.plan.rows;
  if constexpr (simple) {
    constexpr std::size_t pitch = simd<A>::width / together, rows_of_two_batches = 2 * simd<A>::width;
    constexpr auto stride = static_cast<std::ptrdiff_t>(pitch);
    if (rows.cols == pitch && rows.x_stride == stride && rows.y_stride == stride &&
        rows.rows >= rows_of_two_batches) {
      rapt::SoftmaxRows whole = rows, rest = rows;
      rest.rows = rows.rows % rows_of_two_batches;
      whole.rows = rows.rows - rest.rows;
      softmax_in_registers<simple, together, true>(SoftmaxCall<A>(whole), x, y);
      if (rest.rows == 0) return;
      const std::size_t done = whole.rows * pitch;
      return softmax_in_registers<simple, together, false>(SoftmaxCall<A>(rest), x + done, y + done);
    }
  }
  softmax_in_registers<simple, together, false>(call, x, y);
}

}  // namespace
