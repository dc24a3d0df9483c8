// What softmax, log_softmax and logsumexp share: a row's maximum, its exponentials and their sum.
//
// The maximum is removed in the exponent where it can be: e = 2^(n - N) * exp(r), N being the maximum in
// units of ln 2, has neither the rounding error of x - max nor an operation more.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "contract/exp.hpp"
#include "contract/log.hpp"
#include "kernels/exp.hpp"
#include "kernels/softmax/scores.hpp"
#include "kernels/vector/sum.hpp"
#include "kernels/vector/unroll.hpp"

namespace {

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// What is known of a row once its maximum is: how its exponentials are taken.
template <class T>
struct RowMax {
  using C = rapt::Contract<T>;
  RowKind kind = RowKind::regular;
  T max = 0;  // of v; the sink's where that is larger
  bool sink_is_max = false;
  bool subtract = false;  // exp(c * (v - max)) instead of 2^(n - max_n) * exp(r): max is so large that the
                          // former is exact
  T max_n = 0;

  RowMax() = default;
  RowMax(const ScorePlan<T> &plan, const ExpConstants<T> &k, std::size_t r, std::size_t cols, T max_of_scores)
      : kind(RowKind::regular), max(max_of_scores) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const T *sinks = plan.sinks();
    const T c = static_cast<T>(plan.c);
    const T sink = sinks ? sinks[r] : -infinity;
    if (max == -infinity && !any_visible(plan, r, cols)) {
      kind = RowKind::nothing_visible;
    } else if (!(max < infinity) || !(sink < infinity)) {
      kind = RowKind::not_a_number;
    } else {
      sink_is_max = sink > c * max;
      if (sink_is_max)
        max = sink / c < std::numeric_limits<T>::max() ? sink / c : std::numeric_limits<T>::max();
      if (max == -infinity) kind = RowKind::all_minus_infinity;
    }
    subtract = !(std::fabs(max) < plan.subtract_from);
    if (!subtract) max_n = std::fma(max, k.log2_e, C::round_magic) - C::round_magic;
  }

 private:
  static bool any_visible(const ScorePlan<T> &plan, std::size_t r, std::size_t cols) {
    for (std::size_t i = 0; i < cols; ++i) {
      if (!plan.excluded(r, i)) return true;
    }
    return false;
  }
};

// 2^sum_bias * exp(c * (v - max)) of a regular row.
template <class T, bool subtract>
class RowExp {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;

  [[gnu::always_inline]] RowExp(const ExpParts<T> &exp, T max, T max_n, T depth)
      : RowExp(exp, batch(subtract ? -depth : max - depth), batch(magic(max_n))) {
    max_ = batch(max);
  }
  [[gnu::always_inline]] RowExp(const ExpParts<T> &exp, batch lowest, batch magic)
      : exp_(&exp), lowest_(lowest), magic_(magic) {}
  // max_n: a number or a vector of them.
  template <class N>
  [[gnu::always_inline]] static N magic(N max_n) {
    return (N(C::round_magic) - max_n) + N(T(C::sum_bias));
  }

  [[gnu::always_inline]] batch operator()(batch v) const {
    if constexpr (subtract) v = v - max_;
    // Scores so low that their probability is 0 stay where the exponent is in range.
    return exp_->exp_normal(S::max(lowest_, v), magic_);
  }

 private:
  const ExpParts<T> *exp_;
  batch lowest_, magic_, max_;
};

struct Nothing {};

// A row's exponentials as terms of its sum; they are stored in e. What lies as far from `ahead` on as a term
// from the row's beginning is fetched meanwhile, and `beside` makes a step for every few of them.
template <Store to, class T, class Exponential, class Scores, class Beside = Nothing>
struct RowTerms {
  using S = simd<T>;
  using batch = typename S::batch;
  const Exponential &exponential;
  const Scores &scores;
  T *e;
  const T *ahead;
  Beside *beside = nullptr;

  template <std::size_t registers>
  [[gnu::always_inline]] void full(std::size_t i, batch (&term)[registers]) const {
    constexpr std::size_t line = 64 / sizeof(T);
    unroll<(registers * S::width + line - 1) / line>([&](auto r) __attribute__((always_inline)) {
      __builtin_prefetch(ahead + i + r * line);
    });
    if constexpr (Scores::in_memory) {
      unroll<registers>([&](auto r) __attribute__((always_inline)) {
        term[r] = exponential(scores.full(i + r * S::width));
      });
    } else {
      for (std::size_t r = 0; r < registers; ++r) term[r] = exponential(scores.full(i + r * S::width));
    }
    unroll<registers>([&](auto r)
                          __attribute__((always_inline)) { store_full<to>(e, i + r * S::width, term[r]); });
    if constexpr (!std::is_same_v<Beside, Nothing>) beside->step();
  }
  [[gnu::always_inline]] batch first(std::size_t i, std::size_t left) const {
    const batch term = exponential(scores.first(i, left));
    store_end<to>(e, i, term, left);
    return S::keep_first(term, left);
  }
};

template <class T>
struct RowSum {
  T sum;           // of the exponentials, each times 2^sum_bias
  double log_sum;  // log of the sum of exp(s - c * max)
};

// A call: the plan of its scores and the constants of its exponentials.
template <class T>
class SoftmaxCall {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;

  // Columns that row r sees, its maximum and, if that was found on the way, its sum.
  struct Row {
    std::size_t cols;
    RowMax<T> max;
    bool summed;
    double sum;
  };
  // Scores that are not their elements are stored to v.
  [[gnu::noinline, gnu::flatten]] Row look_at(std::size_t r, const T *x, T *v) const {
    const std::size_t cols = plan.visible_cols(r);
    if (!plan.plain()) {
      const T max = take_max<Store::exact>(r, x, v, cols).result();
      const PlainScores<T> scores{v};
      if (in_one_pass(cols)) return look_at_long(r, scores, cols);
      return {cols, RowMax<T>(plan, k, r, cols, with_nan(max, scores, cols)), false, 0};
    }
    return look_at(r, PlainScores<T>{x}, cols);
  }
  template <class Scores>
  [[gnu::always_inline]] Row look_at(std::size_t r, const Scores &scores, std::size_t cols) const {
    if (in_one_pass(cols)) return look_at_long(r, scores, cols);
    const T max = max_of<T>(scores, 0, cols).result();
    return {cols, RowMax<T>(plan, k, r, cols, with_nan(max, scores, cols)), false, 0};
  }
  template <Store to>
  [[gnu::always_inline]] MaxOf<T> take_max(std::size_t r, const T *x, T *v, std::size_t cols) const {
    if (plan.plain()) return max_of<T>(PlainScores<T>{x}, 0, cols);
    if (plan.masked_only()) return max_of<to>(MaskedScores<T>{x, plan.mask_row(r)}, 0, cols, v);
    return max_of_made<to>(r, x, v, cols);
  }

  explicit SoftmaxCall(const rapt::SoftmaxRows &rows)
      : plan(rows), k(exp_constants<T>(plan.c)), depth(C::depth / static_cast<T>(plan.c)) {}

  const ScorePlan<T> plan;
  const ExpConstants<T> k;
  const T depth;

  // The sum of a regular row's exponentials (see RowTerms); NaN if a score is, where the ISA finds that here.
  template <Store to, class Scores>
  [[gnu::always_inline]] double sum_exponentials(const RowMax<T> &row, const Scores &scores, std::size_t n,
                                                 T *e, const T *ahead) const {
    const ExpParts<T> exp(k);
    if (row.subtract) [[unlikely]]
      return sum_by_subtraction<to>(row, scores, n, e, ahead);
    const RowExp<T, false> exponential(exp, row.max, row.max_n, depth);
    return sum_of<T>(n, RowTerms<to, T, RowExp<T, false>, Scores>{exponential, scores, e, ahead});
  }

  // The row's sum with its sink, and the logarithm if it is asked for.
  RowSum<T> finish(const RowMax<T> &row, std::size_t r, double sum, bool wants_log) const {
    if (const T *sinks = plan.sinks()) sum += sink_exponential(row, sinks[r]);
    RowSum<T> result{static_cast<T>(sum), 0};
    if (wants_log) {
      double remainder = 0;
      if (!row.subtract) {
        const T r_of_max = std::fma(-row.max_n, k.ln2_lo, std::fma(-row.max_n, k.ln2_hi, row.max));
        remainder = plan.c * double{r_of_max};
      }
      constexpr double unbias = 1.0 / static_cast<double>(1ull << (C::sum_bias / 2));
      const double log_sum = log_of_sum(sum * unbias * unbias) - remainder;
      result.log_sum = log_sum > 0 ? log_sum : 0;  // the maximum's own term is 1
      // Where sink / c is out of range, the sink is above c * max; by a little less, as their sum may not
      // overflow.
      if (row.sink_is_max && row.max == std::numeric_limits<T>::max()) {
        const double above = double{plan.sinks()[r]} - plan.c * double{row.max};
        result.log_sum = above * (1 - std::numeric_limits<T>::epsilon());
      }
    }
    return result;
  }

 private:
  // A sink may be the maximum, which is known only at a row's end.
  bool in_one_pass(std::size_t cols) const { return cols > C::one_pass_from && !plan.rows.options.sinks; }

  template <Store to>
  [[gnu::noinline, gnu::flatten]] MaxOf<T> max_of_made(std::size_t r, const T *x, T *v,
                                                       std::size_t cols) const {
    return max_of<to>(MadeScores<T>(plan, x, r), 0, cols, v);
  }

  // The maximum and the sum in one pass; of rows that are not regular or subtract their maximum, the maximum
  // alone.
  template <class Scores>
  [[gnu::noinline, gnu::flatten]] Row look_at_long(std::size_t r, const Scores &scores, std::size_t n) const {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    constexpr std::size_t block = C::sum_block;
    const ExpParts<T> exp(k);
    LongSum<T> total;
    total.clear();
    T max = -infinity, max_n = 0;
    for (std::size_t i = 0; i < n; i += block) {
      const std::size_t end = n - i < block ? n : i + block;
      const T largest = max_of<T>(scores, i, end).result();
      if (largest > max || largest != largest) max = largest;
      if (!(max < plan.subtract_from)) continue;
      // So far below there is nothing to be exact about: either more comes, or the maximum is subtracted.
      const T reference = max > -plan.subtract_from ? max : -plan.subtract_from;
      const T n_before = max_n;
      max_n = std::fma(reference, k.log2_e, C::round_magic) - C::round_magic;
      if (i > 0 && max_n != n_before) total.scale(inverse_power_of_two(max_n - n_before));
      const RowExp<T, false> exponential(exp, reference, max_n, depth);
      const T *ahead = end < n ? scores.address(block) : scores.address(0);
      SumLanes<T> sum;
      sum.set_to_sum(i, end,
                     RowTerms<Store::none, T, RowExp<T, false>, Scores>{exponential, scores, nullptr, ahead});
      total.add(sum.lane);
    }
    const bool usual = std::fabs(max) < plan.subtract_from;
    return {n, RowMax<T>(plan, k, r, n, with_nan(max, scores, n)), usual, usual ? total.fold() : 0};
  }
  // 2^-k, or 2^-1000 if that is larger: what is scaled by less does not count beside what is not.
  static double inverse_power_of_two(T k) {
    const auto exponent = static_cast<std::uint64_t>(k < T(1000) ? k : T(1000));
    return __builtin_bit_cast(double, (std::uint64_t{1023} - exponent) << 52);
  }

  template <Store to, class Scores>
  [[gnu::noinline, gnu::flatten]] double sum_by_subtraction(const RowMax<T> &row, const Scores &scores,
                                                            std::size_t n, T *e, const T *ahead) const {
    const ExpParts<T> exp(k);
    const RowExp<T, true> exponential(exp, row.max, 0, depth);
    return sum_of<T>(n, RowTerms<to, T, RowExp<T, true>, Scores>{exponential, scores, e, ahead});
  }

  double sink_exponential(const RowMax<T> &row, T sink) const {
    const ExpParts<T> natural(exp_constants<T>(1.0));
    const T c = static_cast<T>(plan.c);
    batch e;
    if (row.subtract) {
      // Relative to c * max, exactly; but where |s| is beyond measure, that rounding neither overflows nor
      // makes the sink vanish that is the maximum itself.
      T s = std::fma(-c, row.max, sink);
      if (s > T(1)) s = T(1);
      if (row.sink_is_max && s < T(-1)) s = T(-1);
      e = RowExp<T, true>(natural, 0, 0, C::depth)(batch(s));
    } else {
      e = RowExp<T, false>(natural, c * row.max, row.max_n, C::depth)(batch(sink));
    }
    T lanes[S::width];
    S::store(lanes, e);
    return double{lanes[0]};
  }
};

}  // namespace
