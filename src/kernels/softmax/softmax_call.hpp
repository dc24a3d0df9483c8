// Defines the passes over a row that softmax, log_softmax and logsumexp share.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/log.hpp"
#include "kernels/softmax/max.hpp"
#include "kernels/softmax/row.hpp"
#include "kernels/softmax/row_scratch.hpp"
#include "kernels/softmax/scores.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/sum.hpp"

namespace {

struct RowSum {
  double sum;      // of the exponentials, each times 2^sum_bias
  double log_sum;  // log of the sum of exp(s - c * max)
};

// Holds the score plan and exp constants of a call, and makes the passes over its rows.
template <class A>
class SoftmaxCall {
 public:
  using S = simd<A>;
  using C = rapt::SoftmaxContract<A>;
  using batch = typename S::batch;

  // If a row's exponentials are within this many powers of two, all quotients are normal numbers, and so are
  // their products with Reciprocal's `low`. A sum is below one_pass_from times its largest term.
  static constexpr A narrow_span = sizeof(A) == 4 ? 126 - 32 - 18 : 1022 - 61 - 18;

  // Holds what the first pass finds: the number of columns that a row sees, its maximum and, if `summed`, its
  // sum. `narrow` says that the exponentials are within narrow_span; it is computed only if `spans`.
  struct Row {
    std::size_t cols;
    RowMax<A> max;
    bool summed;
    double sum;
    bool narrow = false;
  };
  // If scores differ from the elements, also stores them to `scratch` unless it is null.
  template <bool spans = false, class E>
  [[gnu::noinline, gnu::flatten]] Row first_pass(std::size_t r, const E *x, A *scratch) const {
    const std::size_t cols = plan.visible_cols(r);
    if (plan.plain()) return first_pass<spans>(r, PlainScores<E>{x}, cols);
    if constexpr (output_is_scratch<E>) {
      const auto max = find_max<Store::exact, spans>(r, x, scratch, cols);
      const PlainScores<A> scores{scratch};
      if (in_one_pass(cols)) return first_pass_with_sum(r, scores, cols);
      return row_of(r, scores, cols, max);
    } else {
      if (plan.masked_only()) return first_pass(r, MaskedScores<E>{x, plan.mask_row(r)}, cols);
      return first_pass(r, ComputedScores<E>(plan, x, r), cols);
    }
  }
  template <bool spans = false, class Scores>
  RAPT_INNER Row first_pass(std::size_t r, const Scores &scores, std::size_t cols) const {
    if (in_one_pass(cols)) return first_pass_with_sum(r, scores, cols);
    return row_of(r, scores, cols, max_of<Store::none, spans>(scores, 0, cols, static_cast<A *>(nullptr)));
  }
  template <Store to, bool spans = false, class E>
  RAPT_INNER MaxOf<A, spans> find_max(std::size_t r, const E *x, A *v, std::size_t cols) const {
    if (plan.plain()) return max_of<Store::none, spans>(PlainScores<E>{x}, 0, cols, v);
    if (plan.masked_only()) return max_of<to, spans>(MaskedScores<E>{x, plan.mask_row(r)}, 0, cols, v);
    if (plan.cap != 0 && !plan.rows.options.bias && !plan.rows.options.mask)
      return max_of_capped<to, spans>(x, v, cols);
    return max_of_made<to, spans>(r, x, v, cols);
  }

  explicit SoftmaxCall(const rapt::SoftmaxRows &rows)
      : plan(rows), k(exp_constants<A>(plan.c)), depth(C::depth / static_cast<A>(plan.c)) {}

  const ScorePlan<A> plan;
  const ExpConstants<A> k;
  const A depth;

  // Returns the sum of a regular row's exponentials, and stores them to e as `to` says. If a score is NaN, so
  // is the sum where S::exp_keeps_nan.
  template <Store to, class Scores, class Next>
  RAPT_INNER double sum_exponentials(const RowMax<A> &row, const Scores &scores, std::size_t n, A *e,
                                     const Next *ahead) const {
    const ExpParts<A> exp(k);
    if (row.subtract) [[unlikely]]
      return sum_by_subtraction<to>(row, scores, n, e, ahead);
    const MaskedExp<A> exponential(exp, row.max, row.max_n, depth);
    return sum_of<A>(n, row_terms<to>(exponential, scores, e, ahead));
  }
  // Does the work of sum_exponentials() for a row with `narrow` set, whose exponentials are all normal.
  template <Store to, class Scores, class Next>
  RAPT_INNER double sum_narrow(const RowMax<A> &row, const Scores &scores, std::size_t n, A *e,
                               const Next *ahead) const {
    const ExpParts<A> exp(k);
    return sum_of<A>(n, row_terms<to>(NarrowExp<A>(exp, row.max_n), scores, e, ahead));
  }

  // Returns the row's sum including its sink and, if wants_log, the sum's logarithm.
  RowSum finish(const RowMax<A> &row, std::size_t r, double sum, bool wants_log) const {
    double of_sink = 0;
    if (const A *sinks = plan.sinks()) sum += of_sink = sink_exponential(row, sinks[r]);
    RowSum result{sum, 0};
    if (wants_log) {
      double remainder = 0;
      if (!row.subtract) {
        const A r_of_max = std::fma(-row.max_n, k.ln2_lo, std::fma(-row.max_n, k.ln2_hi, row.max));
        remainder = plan.c * double{r_of_max};
      }
      constexpr double unbias = 1.0 / static_cast<double>(1ull << (C::sum_bias / 2));
      const double log_sum = log_of_sum(sum * unbias * unbias) - remainder;
      if (row.sink_is_max) {
        // The maximum is sink / c, rounded, so that c * max may be above the sink.
        const double above = std::fma(-plan.c, double{row.max}, double{plan.sinks()[r]});
        result.log_sum = sum == of_sink ? above : log_sum;
      } else if (log_sum > 0 && !(log_sum < around_0 && !row.subtract && sum == max_exponential(row))) {
        result.log_sum = log_sum;  // otherwise it is 0: the sum is at least 1, the maximum's term
      }
      // Here sink / c has overflowed, so log_sum is the difference sink - c * max. The factor below 1 keeps
      // the sum of c * max and the difference from overflowing.
      if (row.sink_is_max && row.max == std::numeric_limits<A>::max()) {
        const double above = double{plan.sinks()[r]} - plan.c * double{row.max};
        result.log_sum = above * (1 - std::numeric_limits<A>::epsilon());
      }
    }
    return result;
  }

 private:
  // Returns whether one pass computes the maximum and the sum. With sinks there are two passes: a sink may be
  // the maximum, which is known only at the row's end.
  bool in_one_pass(std::size_t cols) const { return cols > rapt::one_pass_from && !plan.rows.options.sinks; }

  template <class Scores, bool spans>
  RAPT_INNER Row row_of(std::size_t r, const Scores &scores, std::size_t cols,
                        const MaxOf<A, spans> &largest) const {
    Row row{cols, RowMax<A>(plan, k, r, cols, with_nan(largest.result(), scores, cols)), false, 0};
    if constexpr (spans) {
      const A least_n = std::fma(largest.least(), k.log2_e, C::round_magic) - C::round_magic;
      row.narrow = !row.max.subtract && row.max.max_n - least_n <= narrow_span;
    }
    return row;
  }

  template <Store to, bool spans, class E>
  [[gnu::noinline, gnu::flatten]] MaxOf<A, spans> max_of_capped(const E *x, A *v, std::size_t cols) const {
    return max_of<to, spans>(CappedScores<E>{x, batch(plan.factor), batch(plan.cap)}, 0, cols, v);
  }
  template <Store to, bool spans, class E>
  [[gnu::noinline, gnu::flatten]] MaxOf<A, spans> max_of_made(std::size_t r, const E *x, A *v,
                                                              std::size_t cols) const {
    return max_of<to, spans>(ComputedScores<E>(plan, x, r), 0, cols, v);
  }

  // Finds the maximum and the sum in one pass. For an irregular row, or one with RowMax::subtract, it finds
  // only the maximum.
  template <class Scores>
  [[gnu::noinline, gnu::flatten]] Row first_pass_with_sum(std::size_t r, const Scores &scores,
                                                          std::size_t n) const {
    constexpr A infinity = std::numeric_limits<A>::infinity();
    constexpr std::size_t section = rapt::one_pass_section;
    const ExpParts<A> exp(k);
    BlockSum<A> sum;
    A max = -infinity, max_n = 0;
    for (std::size_t i = 0; i < n; i += section) {
      const std::size_t end = n - i < section ? n : i + section;
      const A largest = max_of<A>(scores, i, end).result();
      if (largest > max || largest != largest) max = largest;
      if (!(max < plan.subtract_from)) continue;
      // A reference that is limited here need not be exact: a larger one follows, or the sum is not used.
      const A reference = max > -plan.subtract_from ? max : -plan.subtract_from;
      const A n_before = max_n;
      max_n = std::fma(reference, k.log2_e, C::round_magic) - C::round_magic;
      if (i > 0 && max_n != n_before) sum.scale(inverse_power_of_two(max_n - n_before));
      const MaskedExp<A> exponential(exp, reference, max_n, depth);
      const auto *ahead = end < n ? scores.address(section) : scores.address(0);
      add_terms(sum, i, end, row_terms<Store::none, A>(exponential, scores, nullptr, ahead));
    }
    const bool usual = std::fabs(max) < plan.subtract_from;
    return {n, RowMax<A>(plan, k, r, n, with_nan(max, scores, n)), usual, usual ? sum.fold() : 0};
  }
  // Returns max(2^-k, 2^-1000). A sum scaled by 2^-1000 is already too small to change later sums.
  static double inverse_power_of_two(A k) {
    const auto exponent = static_cast<std::uint64_t>(k < A(1000) ? k : A(1000));
    return __builtin_bit_cast(double, (std::uint64_t{1023} - exponent) << 52);
  }

  template <Store to, class Scores, class Next>
  [[gnu::noinline, gnu::flatten]] double sum_by_subtraction(const RowMax<A> &row, const Scores &scores,
                                                            std::size_t n, A *e, const Next *ahead) const {
    const ExpParts<A> exp(k);
    const RowExp<A, true> exponential(exp, row.max, 0, depth);
    return sum_of<A>(n, row_terms<to>(exponential, scores, e, ahead));
  }

  // If the sum is the maximum's exponential, log_sum is below this. Only rounding makes it differ from 0.
  static constexpr double around_0 = 16 * std::numeric_limits<A>::epsilon();

  // Returns the exponential of the maximum itself, for rows without RowMax::subtract.
  [[gnu::noinline, gnu::flatten]] double max_exponential(const RowMax<A> &row) const {
    const ExpParts<A> exp(k);
    return first_lane(RowExp<A, false>(exp, row.max, row.max_n, depth)(batch(row.max)));
  }
  static double first_lane(batch e) {
    A lanes[S::width];
    S::store(lanes, e);
    return double{lanes[0]};
  }

  double sink_exponential(const RowMax<A> &row, A sink) const {
    const ExpParts<A> natural(exp_constants<A>(1.0));
    const A c = static_cast<A>(plan.c);
    batch e;
    if (row.subtract) {
      // s = sink - c * max is exact for ordinary sinks, but rounded for a huge |s|. The bounds prevent an
      // overflow, and keep s near 0 if the sink itself is the maximum.
      A s = std::fma(-c, row.max, sink);
      if (s > A(1)) s = A(1);
      if (row.sink_is_max && s < A(-1)) s = A(-1);
      e = RowExp<A, true>(natural, 0, 0, C::depth)(batch(s));
    } else {
      e = RowExp<A, false>(natural, c * row.max, row.max_n, C::depth)(batch(sink));
    }
    return first_lane(e);
  }
};

}  // namespace
