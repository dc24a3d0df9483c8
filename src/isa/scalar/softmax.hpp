// The reference of softmax, log_softmax and logsumexp: every score is computed anew where it is needed.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/exp.hpp"
#include "contract/log.hpp"
#include "isa/scalar/exp.hpp"
#include "kernels/kernels.hpp"

namespace {

template <class T>
T tanh_one(const Reduction<T> &natural, T z) {
  using C = rapt::Contract<T>;
  if (std::isnan(z)) return z;
  // tanh(|z|) = -q / (2 + q) with q = exp(-2|z|) - 1, which keeps its accuracy near 0.
  const T magnitude = std::fabs(z) < C::tanh_saturates ? std::fabs(z) : C::tanh_saturates;
  const T t = T(-2) * magnitude;
  const T n = natural.round_multiple(t);
  const T r = natural.remainder(t, n);
  T q = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) q = std::fma(q, r, C::c[i]);
  q = std::fma(r * r, q, r);
  const T two_to_n = power_of_two<T>(static_cast<int>(n));
  q = std::fma(two_to_n, q, two_to_n - T(1));
  const T result = -q / (T(2) + q);
  return z < 0 ? -result : result;
}

template <class T>
class Scores {
 public:
  explicit Scores(const rapt::SoftmaxRows &rows) : plan_(rows), natural_(1.0) {}

  const ScorePlan<T> &plan() const { return plan_; }
  double c() const { return plan_.c; }

  T v(std::size_t row, std::size_t col, T x) const {
    if (plan_.excluded(row, col)) return -std::numeric_limits<T>::infinity();
    const T *bias = plan_.bias_row(row);
    if (plan_.cap != 0) {
      const T capped = tanh_one(natural_, x * plan_.factor);
      return bias ? std::fma(plan_.cap, capped, bias[col]) : plan_.cap * capped;
    }
    return bias ? std::fma(plan_.factor, x, bias[col]) : plan_.factor * x;
  }

 private:
  ScorePlan<T> plan_;
  Reduction<T> natural_;
};

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// What one pass for the maximum and one for the sum find out about a row.
template <class T>
struct RowSum {
  RowKind kind = RowKind::regular;
  T max = -std::numeric_limits<T>::infinity();  // of v; the sink's where that is larger
  bool sink_is_max = false;
  bool subtract = false;  // exp(c * (v - max)) instead of 2^(n - max_n) * exp(r)
  T max_n = 0;
  T sum = 0;           // of the exponentials, each times 2^sum_bias
  double log_sum = 0;  // log of the sum of exp(s - c * max)
};

// 2^sum_bias * exp(c * v), relative to the row's maximum; c is in the reduction.
template <class T>
T exponential(const Reduction<T> &reduction, const RowSum<T> &row, T v, T depth) {
  using C = rapt::Contract<T>;
  using Bits = typename C::Bits;
  const T lowest = row.subtract ? -depth : row.max - depth;
  if (row.subtract) v = v - row.max;
  if (!(v > lowest)) v = lowest;
  const T magic = C::round_magic - row.max_n + T(C::sum_bias);
  const T shifted = std::fma(v, reduction.k.log2_e, magic);
  const T p = reduction.exp_of_remainder(reduction.remainder(v, shifted - magic));
  // n - max_n + sum_bias stands in the low bits of `shifted`; added to the exponent of p it cannot round.
  return __builtin_bit_cast(T, static_cast<Bits>(__builtin_bit_cast(Bits, p) +
                                                 (__builtin_bit_cast(Bits, shifted) << C::mantissa_bits)));
}

// The sum of a regular row's exponentials relative to its maximum, as found in one pass: those of a block are
// relative to the largest score up to its end, and what came before is scaled to that.
template <class T, class Score>
double sum_in_one_pass(const Reduction<T> &reduction, T subtract_from, T depth, std::size_t n, Score score) {
  using C = rapt::Contract<T>;
  LongSumLane<T> long_lane[C::sum_lanes];
  T largest = -std::numeric_limits<T>::infinity();
  RowSum<T> row;
  for (std::size_t begin = 0; begin < n; begin += C::sum_block) {
    const std::size_t end = n - begin < C::sum_block ? n : begin + C::sum_block;
    for (std::size_t i = begin; i < end; ++i) {
      if (score(i) > largest) largest = score(i);
    }
    row.max = largest > -subtract_from ? largest : -subtract_from;
    const T n_before = row.max_n;
    row.max_n = reduction.round_multiple(row.max);
    if (begin > 0) {
      const T difference = row.max_n - n_before;
      const double factor =
          power_of_two<double>(-static_cast<int>(difference < T(1000) ? difference : T(1000)));
      for (LongSumLane<T> &lane : long_lane) {
        lane.total *= factor;
        lane.lost *= factor;
      }
    }
    T lane[C::sum_lanes] = {};
    add_to_lanes(lane, begin, end,
                 [&](std::size_t i) { return exponential(reduction, row, score(i), depth); });
    for (std::size_t j = 0; j < C::sum_lanes; ++j) long_lane[j].add(lane[j]);
  }
  return fold<T>(long_lane);
}

template <class T>
RowSum<T> sum_row(const Scores<T> &scores, const Reduction<T> &reduction, const T *x, std::size_t row_index,
                  std::size_t cols, const T *sinks) {
  using C = rapt::Contract<T>;
  RowSum<T> row;
  bool is_nan = false;
  bool any = false;
  for (std::size_t i = 0; i < cols; ++i) {
    const T v = scores.v(row_index, i, x[i]);
    any = any || !scores.plan().excluded(row_index, i);
    is_nan = is_nan || std::isnan(v);
    if (v > row.max) row.max = v;
  }
  const T c = static_cast<T>(scores.c());
  const T sink = sinks ? sinks[row_index] : -std::numeric_limits<T>::infinity();
  if (!any) {
    row.kind = RowKind::nothing_visible;
    return row;
  }
  if (is_nan || row.max == std::numeric_limits<T>::infinity() || std::isnan(sink) ||
      sink == std::numeric_limits<T>::infinity()) {
    row.kind = RowKind::not_a_number;
    return row;
  }
  row.sink_is_max = sink > c * row.max;
  if (row.sink_is_max)
    row.max = sink / c < std::numeric_limits<T>::max() ? sink / c : std::numeric_limits<T>::max();
  if (row.max == -std::numeric_limits<T>::infinity()) {
    row.kind = RowKind::all_minus_infinity;
    return row;
  }

  row.subtract = !(std::fabs(row.max) < C::subtract_from / c);
  if (!row.subtract) row.max_n = reduction.round_multiple(row.max);
  const T depth = C::depth / c;
  const auto score = [&](std::size_t i) { return scores.v(row_index, i, x[i]); };
  double sum =
      cols > C::one_pass_from && !row.subtract && !sinks
          ? sum_in_one_pass(reduction, C::subtract_from / c, depth, cols, score)
          : sum_of<T>(cols, [&](std::size_t i) { return exponential(reduction, row, score(i), depth); });

  if (sinks) {
    const Reduction<T> natural(1.0);
    RowSum<T> as_sum = row;  // the sink is s itself, not v: its row has c = 1
    as_sum.max = c * row.max;
    T s = sink;
    if (row.subtract) {
      // Relative to c * max, exactly; but where |s| is beyond measure, that rounding neither overflows nor
      // makes the sink vanish that is the maximum itself.
      s = std::fma(-c, row.max, sink);
      if (s > T(1)) s = T(1);
      if (row.sink_is_max && s < T(-1)) s = T(-1);
      as_sum.max = 0;
    }
    sum += double{exponential(natural, as_sum, s, C::depth)};
  }

  row.sum = static_cast<T>(sum);
  const double remainder_of_max =
      row.subtract ? 0.0 : scores.c() * double{reduction.remainder(row.max, row.max_n)};
  row.log_sum = log_of_sum(sum * power_of_two<double>(-C::sum_bias)) - remainder_of_max;
  if (!(row.log_sum > 0)) row.log_sum = 0;  // the maximum's own term is 1: rounding alone is below
  // Where sink / c is out of range, the sink is above c * max; by a little less, as their sum may not
  // overflow.
  if (row.sink_is_max && row.max == std::numeric_limits<T>::max()) {
    row.log_sum = (double{sink} - scores.c() * double{row.max}) * (1 - std::numeric_limits<T>::epsilon());
  }
  return row;
}

template <class T>
void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using C = rapt::Contract<T>;
  const Scores<T> scores(*rows);
  const Reduction<T> reduction(scores.c());
  const T depth = C::depth / static_cast<T>(scores.c());
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = scores.plan().visible_cols(r);
    const RowSum<T> row = sum_row(scores, reduction, x, r, cols, scores.plan().sinks());
    const bool is_nan = row.kind == RowKind::not_a_number ||
                        (row.kind == RowKind::all_minus_infinity && !rows->options.empty_rows_are_zero);
    for (std::size_t i = 0; i < rows->cols; ++i) {
      if (i >= cols || scores.plan().excluded(r, i)) {
        y[i] = 0;
      } else if (row.kind != RowKind::regular) {
        y[i] = is_nan ? std::numeric_limits<T>::quiet_NaN() : T(0);
      } else {
        const T e = exponential(reduction, row, scores.v(r, i, x[i]), depth);
        y[i] = e < C::smallest_normal * row.sum ? T(0) : e / row.sum;
      }
    }
  }
}

template <class T>
void log_softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  const T infinity = std::numeric_limits<T>::infinity();
  const Scores<T> scores(*rows);
  const Reduction<T> reduction(scores.c());
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = scores.plan().visible_cols(r);
    const RowSum<T> row = sum_row(scores, reduction, x, r, cols, scores.plan().sinks());
    const bool is_nan = row.kind == RowKind::not_a_number ||
                        (row.kind == RowKind::all_minus_infinity && !rows->options.empty_rows_are_zero);
    for (std::size_t i = 0; i < rows->cols; ++i) {
      if (i >= cols || scores.plan().excluded(r, i)) {
        y[i] = -infinity;
      } else if (row.kind != RowKind::regular) {
        y[i] = is_nan ? std::numeric_limits<T>::quiet_NaN() : -infinity;
      } else {
        // Halves, as the difference of two numbers of the type may be out of its range where c times it is
        // not.
        const T half_difference = T(0.5) * scores.v(r, i, x[i]) - T(0.5) * row.max;
        y[i] = std::fma(static_cast<T>(2 * scores.c()), half_difference, -static_cast<T>(row.log_sum));
      }
    }
  }
}

template <class T>
void logsumexp(const T *x, T *out, const rapt::SoftmaxRows *rows) {
  const Scores<T> scores(*rows);
  const Reduction<T> reduction(scores.c());
  const T *sinks = scores.plan().sinks();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride) {
    const RowSum<T> row = sum_row(scores, reduction, x, r, scores.plan().visible_cols(r), sinks);
    switch (row.kind) {
      case RowKind::regular:
        out[r] = static_cast<T>(std::fma(scores.c(), double{row.max}, row.log_sum));
        if (sinks && out[r] < sinks[r]) out[r] = sinks[r];  // by rounding
        break;
      case RowKind::not_a_number:
        out[r] = std::numeric_limits<T>::quiet_NaN();
        break;
      case RowKind::nothing_visible:
        out[r] = sinks ? sinks[r] : -std::numeric_limits<T>::infinity();
        break;
      case RowKind::all_minus_infinity:
        out[r] = -std::numeric_limits<T>::infinity();
        break;
    }
  }
}

}  // namespace
