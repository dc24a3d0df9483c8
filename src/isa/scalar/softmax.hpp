// Implements the scalar reference of softmax, log_softmax and logsumexp. Each use of a score computes the
// score again.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>

#include "call/score_plan.hpp"
#include "contract/fused.hpp"
#include "contract/log.hpp"
#include "contract/softmax.hpp"
#include "contract/types.hpp"
#include "isa/scalar/exp.hpp"

namespace {

template <class A>
A tanh_one(const Reduction<A> &natural, A z) {
  using C = rapt::SoftmaxContract<A>;
  if (std::isnan(z)) return z;
  // With q = exp(-2|z|) - 1, tanh(|z|) = -q / (2 + q) keeps its accuracy near 0.
  const A magnitude = std::fabs(z) < C::tanh_saturates ? std::fabs(z) : C::tanh_saturates;
  const A t = A(-2) * magnitude;
  const A n = natural.round_multiple(t);
  const A r = natural.remainder(t, n);
  A q = C::c[C::coefficient_count - 1];
  for (std::size_t i = C::coefficient_count - 1; i-- > 0;) q = fused(q, r, C::c[i]);
  q = fused(r * r, q, r);
  const A two_to_n = power_of_two<A>(static_cast<int>(n));
  q = fused(two_to_n, q, two_to_n - A(1));
  const A result = -q / (A(2) + q);
  return z < 0 ? -result : result;
}

// Returns `sum`, the score plus a bias. If both are finite, a sum below all numbers is the lowest number: -inf is the
// score of keys without weight.
template <class A>
A biased(A score, A sum) {
  constexpr A infinity = std::numeric_limits<A>::infinity();
  return sum == -infinity && score != -infinity ? std::numeric_limits<A>::lowest() : sum;
}

template <class A>
class Scores {
 public:
  explicit Scores(const rapt::SoftmaxRows &rows) : plan_(rows), natural_(1.0) {}

  const ScorePlan<A> &plan() const { return plan_; }
  double c() const { return plan_.c; }

  A v(std::size_t row, std::size_t col, A x) const {
    if (plan_.excluded(row, col)) return -std::numeric_limits<A>::infinity();
    const A *bias = plan_.bias_row(row);
    const A scaled = x * plan_.factor;
    if (plan_.cap != 0) {
      const A tanh = tanh_one(natural_, scaled);
      return bias ? biased(tanh, fused(plan_.cap, tanh, bias[col])) : plan_.cap * tanh;
    }
    return bias ? biased(scaled, fused(bias[col], plan_.from_natural, scaled)) : scaled;
  }

 private:
  ScorePlan<A> plan_;
  Reduction<A> natural_;
};

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// Holds the maximum of a row, and the sum of its exponentials.
template <class A>
struct RowSum {
  RowKind kind = RowKind::regular;
  A max = -std::numeric_limits<A>::infinity();  // the largest v, or sink / c if sink / c is larger
  bool sink_is_max = false;
  bool subtract = false;  // uses exp(c * (v - max)) instead of 2^(n - max_n) * exp(r)
  A max_n = 0;
  double sum = 0;      // of the exponentials, each times 2^sum_bias
  double log_sum = 0;  // log of the sum of exp(s - c * max)
};

// Returns 2^sum_bias * exp(c * v), relative to the row's maximum. `reduction` includes c.
template <class A>
A exponential(const Reduction<A> &reduction, const RowSum<A> &row, A v, A depth) {
  using C = rapt::SoftmaxContract<A>;
  using Bits = typename C::Bits;
  const A lowest = row.subtract ? -depth : row.max - depth;
  if (row.subtract) v = v - row.max;
  if (!(v > lowest)) return 0;
  const A magic = C::round_magic - row.max_n + A(C::sum_bias);
  const A shifted = fused(v, reduction.k.log2_e, magic);
  const A p = reduction.exp_of_remainder(reduction.remainder(v, shifted - magic));
  // The low bits of `shifted` are n - max_n + sum_bias. Adding them to the exponent of p cannot round.
  return __builtin_bit_cast(A, static_cast<Bits>(__builtin_bit_cast(Bits, p) +
                                                 (__builtin_bit_cast(Bits, shifted) << C::mantissa_bits)));
}

// Sums the exponentials of a regular row in one pass. The exponentials of a section are relative to the
// largest score up to the section's end. The sum of earlier sections is rescaled to that score.
template <class A, class Score>
double sum_in_one_pass(const Reduction<A> &reduction, A subtract_from, A depth, std::size_t n, Score score) {
  BlockSum<A> sum;
  A largest = -std::numeric_limits<A>::infinity();
  RowSum<A> row;
  for (std::size_t begin = 0; begin < n; begin += rapt::one_pass_section) {
    const std::size_t end = n - begin < rapt::one_pass_section ? n : begin + rapt::one_pass_section;
    for (std::size_t i = begin; i < end; ++i) {
      if (score(i) > largest) largest = score(i);
    }
    row.max = largest > -subtract_from ? largest : -subtract_from;
    const A n_before = row.max_n;
    row.max_n = reduction.round_multiple(row.max);
    if (begin > 0) {
      const A difference = row.max_n - n_before;
      sum.scale(power_of_two<double>(-static_cast<int>(difference < A(1000) ? difference : A(1000))));
    }
    add_terms(sum, begin, end, [&](std::size_t i) { return exponential(reduction, row, score(i), depth); });
  }
  return sum.fold();
}

// Finds the kind of a row, and its maximum including the sink.
template <class E, class A>
RowSum<A> find_max(const Scores<A> &scores, const E *x, std::size_t row_index, std::size_t cols, A sink) {
  constexpr A infinity = std::numeric_limits<A>::infinity(), largest = std::numeric_limits<A>::max();
  RowSum<A> row;
  bool is_nan = std::isnan(sink), any = false;
  for (std::size_t i = 0; i < cols; ++i) {
    const A v = scores.v(row_index, i, rapt::widened(x[i]));
    any = any || !scores.plan().excluded(row_index, i);
    is_nan = is_nan || std::isnan(v);
    if (v > row.max) row.max = v;
  }
  if (!any) {
    row.kind = RowKind::nothing_visible;
  } else if (is_nan || row.max == infinity || sink == infinity) {
    row.kind = RowKind::not_a_number;
  } else {
    const A c = static_cast<A>(scores.c());
    row.sink_is_max = sink > c * row.max;
    if (row.sink_is_max) row.max = sink / c < largest ? sink / c : largest;
    if (row.max == -infinity) row.kind = RowKind::all_minus_infinity;
  }
  return row;
}

// Returns the sink's exponential, relative to the row's maximum.
template <class A>
double sink_exponential(const RowSum<A> &row, A c, A sink) {
  using C = rapt::SoftmaxContract<A>;
  RowSum<A> sink_row = row;  // the sink is a score s, not a v, so its c is 1
  sink_row.max = c * row.max;
  A s = sink;
  if (row.subtract) {
    // The difference sink - c * max is exact for ordinary sinks, but rounded for huge ones. The upper bound
    // prevents an overflow. The lower bound keeps the exponential of a sink that is the maximum from becoming
    // 0.
    s = fused(-c, row.max, sink);
    if (s > A(1)) s = A(1);
    if (row.sink_is_max && s < A(-1)) s = A(-1);
    sink_row.max = 0;
  }
  return double{exponential(Reduction<A>(1.0), sink_row, s, C::depth)};
}

template <class E, class A>
RowSum<A> sum_row(const Scores<A> &scores, const Reduction<A> &reduction, const E *x, std::size_t row_index,
                  std::size_t cols, const A *sinks) {
  using C = rapt::SoftmaxContract<A>;
  const A c = static_cast<A>(scores.c());
  const A sink = sinks ? sinks[row_index] : -std::numeric_limits<A>::infinity();
  RowSum<A> row = find_max(scores, x, row_index, cols, sink);
  if (row.kind != RowKind::regular) return row;

  row.subtract = !(std::fabs(row.max) < C::subtract_from / c);
  if (!row.subtract) row.max_n = reduction.round_multiple(row.max);
  const A depth = C::depth / c;
  const auto score = [&](std::size_t i) { return scores.v(row_index, i, rapt::widened(x[i])); };
  double sum =
      cols > rapt::one_pass_from && !row.subtract && !sinks
          ? sum_in_one_pass(reduction, C::subtract_from / c, depth, cols, score)
          : sum_of<A>(cols, [&](std::size_t i) { return exponential(reduction, row, score(i), depth); });
  const double of_sink = sinks ? sink_exponential(row, c, sink) : 0;
  sum += of_sink;

  row.sum = sum;
  const double remainder_of_max =
      row.subtract ? 0.0 : scores.c() * double{reduction.remainder(row.max, row.max_n)};
  row.log_sum = log_of_sum(sum * power_of_two<double>(-C::sum_bias)) - remainder_of_max;
  // If only the maximum's exponential counts, the logarithm is exact. Unless the maximum is the sink, divided by c
  // and rounded, its own term is 1, so that only rounding gives less than 0.
  if (row.sink_is_max) {
    if (sum == of_sink) row.log_sum = fused(-scores.c(), double{row.max}, double{sink});
  } else if (!(row.log_sum > 0) || sum == double{exponential(reduction, row, row.max, depth)}) {
    row.log_sum = 0;
  }
  // Here sink / c is beyond the type, so row.max is the largest number, and the sink is above c * row.max.
  // The factor below 1 prevents an overflow when c * row.max is added to log_sum.
  if (row.sink_is_max && row.max == std::numeric_limits<A>::max()) {
    row.log_sum = (double{sink} - scores.c() * double{row.max}) * (1 - std::numeric_limits<A>::epsilon());
  }
  return row;
}

// Computes e / sum.
template <class A>
class Quotient {
 public:
  using C = rapt::SoftmaxContract<A>;

  explicit Quotient(double sum) {
    const double reciprocal = 1 / sum;
    high_ = static_cast<A>(reciprocal);
    if constexpr (sizeof(A) == sizeof(double)) {
      low_ = fused(-sum, high_, 1.0) * high_;
    } else {
      low_ = static_cast<A>(reciprocal - double{high_});
    }
    if (std::fabs(low_) < high_ * C::reciprocal_floor) low_ = 0;
    high_ *= power_of_two<A>(C::quotient_bias);
    low_ *= power_of_two<A>(C::quotient_bias);
  }
  A operator()(A e) const {
    const A q = fused(e, high_, e * low_);
    return q < C::smallest_quotient ? A(0) : q * power_of_two<A>(-C::quotient_bias);
  }

 private:
  A high_, low_;
};

template <class E>
void softmax(const E *x, E *y, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  using C = rapt::SoftmaxContract<A>;
  const Scores<A> scores(*rows);
  const Reduction<A> reduction(scores.c());
  const A depth = C::depth / static_cast<A>(scores.c());
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = scores.plan().visible_cols(r);
    const RowSum<A> row = sum_row(scores, reduction, x, r, cols, scores.plan().sinks());
    const bool is_nan = row.kind == RowKind::not_a_number ||
                        (row.kind == RowKind::all_minus_infinity && !rows->options.empty_rows_are_zero);
    const Quotient<A> quotient(row.kind == RowKind::regular ? row.sum : 1.0);
    for (std::size_t i = 0; i < rows->cols; ++i) {
      A p = 0;
      const bool visible = i < cols && !scores.plan().excluded(r, i);
      if (visible && row.kind == RowKind::regular) {
        p = quotient(exponential(reduction, row, scores.v(r, i, rapt::widened(x[i])), depth));
      } else if (visible && is_nan) {
        p = std::numeric_limits<A>::quiet_NaN();
      }
      y[i] = rapt::narrowed<E>(p);
    }
  }
}

template <class E>
void log_softmax(const E *x, E *y, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  const A infinity = std::numeric_limits<A>::infinity();
  const Scores<A> scores(*rows);
  const Reduction<A> reduction(scores.c());
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = scores.plan().visible_cols(r);
    const RowSum<A> row = sum_row(scores, reduction, x, r, cols, scores.plan().sinks());
    const bool is_nan = row.kind == RowKind::not_a_number ||
                        (row.kind == RowKind::all_minus_infinity && !rows->options.empty_rows_are_zero);
    for (std::size_t i = 0; i < rows->cols; ++i) {
      A p = -infinity;
      const bool visible = i < cols && !scores.plan().excluded(r, i);
      if (visible && row.kind == RowKind::regular) {
        // Halves are subtracted, because the difference of two numbers may overflow although c times the
        // difference does not.
        const A half_difference = A(0.5) * scores.v(r, i, rapt::widened(x[i])) - A(0.5) * row.max;
        p = fused(static_cast<A>(2 * scores.c()), half_difference, -static_cast<A>(row.log_sum));
      } else if (visible && is_nan) {
        p = std::numeric_limits<A>::quiet_NaN();
      }
      y[i] = rapt::narrowed<E>(p);
    }
  }
}

template <class E>
void logsumexp(const E *x, rapt::Arithmetic<E> *out, const rapt::SoftmaxRows *rows) {
  using A = rapt::Arithmetic<E>;
  const Scores<A> scores(*rows);
  const Reduction<A> reduction(scores.c());
  const A *sinks = scores.plan().sinks();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride) {
    const RowSum<A> row = sum_row(scores, reduction, x, r, scores.plan().visible_cols(r), sinks);
    switch (row.kind) {
      case RowKind::regular:
        out[r] = static_cast<A>(fused(scores.c(), double{row.max}, row.log_sum));
        if (sinks && out[r] < sinks[r]) out[r] = sinks[r];  // rounding may give less than the sink
        break;
      case RowKind::not_a_number:
        out[r] = std::numeric_limits<A>::quiet_NaN();
        break;
      case RowKind::nothing_visible:
        out[r] = sinks ? sinks[r] : -std::numeric_limits<A>::infinity();
        break;
      case RowKind::all_minus_infinity:
        out[r] = -std::numeric_limits<A>::infinity();
        break;
    }
  }
}

}  // namespace
