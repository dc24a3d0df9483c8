// softmax, log_softmax and logsumexp: a pass for the maximum, one for the exponentials and their sum, one to
// divide.
//
// The maximum is removed in the exponent where it can be: e = 2^(n - N) * exp(r), N being the maximum in
// units of ln 2, has neither the rounding error of x - max nor an operation more.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "kernels/contract.hpp"
#include "kernels/exp.hpp"
#include "kernels/kernels.hpp"
#include "kernels/log.hpp"
#include "kernels/score_plan.hpp"
#include "kernels/sum.hpp"
#include "kernels/unroll.hpp"

namespace {

// Scores that lie in memory as they are. first(i, k) has -inf in the lanes after the first k.
template <class T>
struct PlainScores {
  using S = simd<T>;
  using batch = typename S::batch;
  static constexpr bool in_memory = true;
  const T *v;

  [[gnu::always_inline]] batch full(std::size_t i) const { return S::load(v + i); }
  [[gnu::always_inline]] batch first(std::size_t i, std::size_t k) const {
    return S::fill_after(S::load_first(v + i, k), k, -std::numeric_limits<T>::infinity());
  }
};

// Scores that the options make of a row's elements.
template <class T>
class MadeScores {
 public:
  using S = simd<T>;
  using C = rapt::Contract<T>;
  using batch = typename S::batch;
  static constexpr bool in_memory = false;

  MadeScores(const ScorePlan<T> &plan, const T *x, std::size_t r)
      : x_(x),
        bias_(plan.bias_row(r)),
        mask_(plan.mask_row(r)),
        factor_(plan.factor),
        cap_(plan.cap),
        has_cap_(plan.cap != 0) {}

  [[gnu::always_inline]] batch full(std::size_t i) const { return make(S::load(x_ + i), i, S::width); }
  [[gnu::noinline]] batch first(std::size_t i, std::size_t k) const {  // once or twice a row
    return S::fill_after(make(S::load_first(x_ + i, k), i, k), k, -std::numeric_limits<T>::infinity());
  }
  // The first n scores to memory, which may be the elements'.
  void write(T *v, std::size_t n) const {
    std::size_t i = 0;
    for (; n - i >= S::width; i += S::width) S::store(v + i, full(i));
    if (i < n) S::store_first(v + i, first(i, n - i), n - i);
  }

 private:
  [[gnu::always_inline]] batch make(batch x, std::size_t i, std::size_t k) const {
    const batch excluded(-std::numeric_limits<T>::infinity());
    batch v = x * factor_;
    if (has_cap_) v = tanh(v);
    if (bias_) {
      const batch bias = S::load_floats(bias_ + i, k);
      v = has_cap_ ? S::fma(cap_, v, bias) : S::fma(factor_, x, bias);
      v = S::select(S::equal(bias, excluded), excluded, v);
    } else if (has_cap_) {
      v = cap_ * v;
    }
    if (mask_) v = S::select(S::load_flags(mask_ + i, k), v, excluded);
    return v;
  }

  // tanh(|z|) = -q / (2 + q) with q = exp(-2|z|) - 1, which keeps its accuracy near 0.
  static batch tanh(batch z) {
    const ExpParts<T> exp(exp_constants<T>(1.0));
    const batch limit(C::tanh_saturates), magic(C::round_magic), zero(T(0)), one(T(1));
    const batch magnitude = S::select(S::less(S::abs(z), limit), S::abs(z), limit);
    const batch t = magnitude * batch(T(-2));
    const batch shifted = S::fma(t, exp.log2_e, magic);
    const batch r = exp.remainder(t, shifted - magic);
    batch q = exp.c[C::coefficient_count - 1];
    unroll<C::coefficient_count - 1>([&](auto i) { q = S::fma(q, r, exp.c[C::coefficient_count - 2 - i]); });
    q = S::fma(r * r, q, r);
    const batch two_to_n = S::add_exponent(one, shifted);
    q = S::fma(two_to_n, q, two_to_n - one);
    const batch positive = S::divide(zero - q, batch(T(2)) + q);
    const batch result = S::select(S::less(z, zero), zero - positive, positive);
    return S::select(S::unordered(z, z), z, result);
  }

  const T *x_;
  const float *bias_;
  const std::uint8_t *mask_;
  batch factor_, cap_;
  bool has_cap_;
};

// The largest of n scores; NaN if one of them is.
template <class T, class Scores>
[[gnu::always_inline]] inline T max_of(const Scores &scores, std::size_t n) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr std::size_t registers = 4;
  constexpr std::size_t block = registers * S::width;
  batch max[registers];
  unroll<registers>([&](auto r) { max[r] = batch(-std::numeric_limits<T>::infinity()); });
  auto is_nan = S::unordered(max[0], max[0]);
  const auto note_nan = [&](batch a, batch b) __attribute__((always_inline)) {
    if constexpr (!S::max_keeps_nan) is_nan = S::either(is_nan, S::unordered(a, b));
  };

  std::size_t i = 0;
  if constexpr (Scores::in_memory) {
    for (; n - i >= block; i += block) {
      batch v[registers];
      unroll<registers>([&](auto r) {
        v[r] = scores.full(i + r * S::width);
        max[r] = S::max(max[r], v[r]);
      });
      note_nan(v[0], v[1]);
      note_nan(v[2], v[3]);
    }
  }
  for (; n - i >= S::width; i += S::width) {
    const batch v = scores.full(i);
    max[0] = S::max(max[0], v);
    note_nan(v, v);
  }
  if (i < n) {
    const batch v = scores.first(i, n - i);
    max[0] = S::max(max[0], v);
    note_nan(v, v);
  }
  if constexpr (!S::max_keeps_nan) {
    if (S::any(is_nan)) return std::numeric_limits<T>::quiet_NaN();
  }
  return S::fold_max(S::max(S::max(max[0], max[1]), S::max(max[2], max[3])));
}

enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// What is known of a row once its maximum is: how its exponentials are taken.
template <class T>
struct RowMax {
  using C = rapt::Contract<T>;
  RowKind kind;
  T max;  // of v; the sink's where that is larger
  bool sink_is_max = false;
  bool subtract;  // exp(c * (v - max)) instead of 2^(n - max_n) * exp(r): max is so large that the former is
                  // exact
  T max_n = 0;

  RowMax(const ScorePlan<T> &plan, const ExpConstants<T> &k, std::size_t r, std::size_t cols, T max_of_scores)
      : kind(RowKind::regular), max(max_of_scores) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    const float *sinks = plan.rows.options.sinks;
    const T c = static_cast<T>(plan.c);
    const T sink = sinks ? T{sinks[r]} : -infinity;
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
      : exp_(exp),
        max_(max),
        lowest_(subtract ? -depth : max - depth),
        magic_(C::round_magic - max_n + T(C::sum_bias)) {}

  [[gnu::always_inline]] batch operator()(batch v) const {
    if constexpr (subtract) v = v - max_;
    // Scores so low that their probability is 0 stay where the exponent is in range.
    return exp_.exp_normal(S::max(lowest_, v), magic_);
  }

 private:
  const ExpParts<T> &exp_;
  batch max_, lowest_, magic_;
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

  explicit SoftmaxCall(const rapt::SoftmaxRows &rows)
      : plan(rows), k(exp_constants<T>(plan.c)), depth(C::depth / static_cast<T>(plan.c)) {}

  const ScorePlan<T> plan;
  const ExpConstants<T> k;
  const T depth;

  // The exponentials' sum; they are stored in e if that is asked for.
  template <bool store, class Scores>
  double sum_exponentials(const RowMax<T> &row, const Scores &scores, std::size_t n, T *e) const {
    const ExpParts<T> exp(k);
    return row.subtract ? sum_with<store>(RowExp<T, true>(exp, row.max, 0, depth), scores, n, e)
                        : sum_with<store>(RowExp<T, false>(exp, row.max, row.max_n, depth), scores, n, e);
  }

  // The row's sum with its sink, and the logarithm if it is asked for.
  RowSum<T> finish(const RowMax<T> &row, std::size_t r, double sum, bool wants_log) const {
    if (const float *sinks = plan.rows.options.sinks) sum += sink_exponential(row, T{sinks[r]});
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
    }
    return result;
  }

 private:
  template <bool store, class Exponential, class Scores>
  static double sum_with(const Exponential &exponential, const Scores &scores, std::size_t n, T *e) {
    return sum_of<T>(
        n,
        [&](std::size_t i, auto &term) __attribute__((always_inline)) {
          constexpr std::size_t registers = std::extent_v<std::remove_reference_t<decltype(term)>>;
          if constexpr (Scores::in_memory) {
            unroll<registers>([&](auto r) { term[r] = exponential(scores.full(i + r * S::width)); });
          } else {
            for (std::size_t r = 0; r < registers; ++r) term[r] = exponential(scores.full(i + r * S::width));
          }
          if constexpr (store) unroll<registers>([&](auto r) { S::store(e + i + r * S::width, term[r]); });
        },
        [&](std::size_t i, std::size_t left) __attribute__((always_inline)) {
          const batch term = exponential(scores.first(i, left));
          if constexpr (store) S::store_first(e + i, term, left);
          return S::keep_first(term, left);
        });
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

  explicit Quotient(T sum)
      : divisor_(sum), reciprocal_(T(1) / sum), smallest_(rapt::Contract<T>::smallest_normal * sum) {}

  [[gnu::always_inline]] batch operator()(batch e) const {
    e = S::zero_where(S::less(e, smallest_), e);
    const batch q = e * reciprocal_;
    return S::fma(S::fnma(q, divisor_, e), reciprocal_, q);
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

// A regular row of no more columns than the sum has lanes. It stays in registers: by way of memory, where it
// waits for its own masked stores, a row of 8 columns took 26.5 ns instead of 22 on AVX-512.
template <bool subtract, class T>
[[gnu::always_inline]] inline void softmax_of_short_row(const SoftmaxCall<T> &call, const RowMax<T> &row,
                                                        std::size_t r, const PlainScores<T> &scores, T *y,
                                                        std::size_t cols) {
  using S = simd<T>;
  constexpr std::size_t registers = rapt::Contract<T>::sum_lanes / S::width;
  const ExpParts<T> exp(call.k);
  const RowExp<T, subtract> exponential(exp, row.max, row.max_n, call.depth);
  typename S::batch e[registers];
  unroll<registers>([&](auto j) {
    constexpr std::size_t begin = j * S::width;
    e[j] = typename S::batch(T(0));
    if (begin < cols) e[j] = S::keep_first(exponential(scores.first(begin, cols - begin)), cols - begin);
  });
  const double sum = double{fold_lanes<T>(e)};
  const Quotient<T> quotient(call.finish(row, r, sum, false).sum);
  unroll<registers>([&](auto j) {
    constexpr std::size_t begin = j * S::width;
    if (begin < cols) S::store_first(y + begin, quotient(e[j]), cols - begin);
  });
}

template <class T>
[[gnu::flatten]] void softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  const SoftmaxCall<T> call(*rows);
  const bool plain = call.plan.plain();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = call.plan.visible_cols(r);
    if (!plain) MadeScores<T>(call.plan, x, r).write(y, cols);
    const PlainScores<T> scores{plain ? x : y};
    const RowMax<T> row(call.plan, call.k, r, cols, max_of<T>(scores, cols));
    if (row.kind == RowKind::regular && cols <= rapt::Contract<T>::sum_lanes) {
      if (row.subtract) {
        softmax_of_short_row<true>(call, row, r, scores, y, cols);
      } else {
        softmax_of_short_row<false>(call, row, r, scores, y, cols);
      }
    } else if (row.kind == RowKind::regular) {
      const double sum = call.template sum_exponentials<true>(row, scores, cols, y);
      divide(y, cols, call.finish(row, r, sum, false).sum);
    } else {
      fill_irregular(call.plan, r, row.kind, y, cols, T(0));
    }
    if (cols < rows->cols) fill(y + cols, rows->cols - cols, T(0));
  }
}

template <class T>
[[gnu::flatten]] void log_softmax(const T *x, T *y, const rapt::SoftmaxRows *rows) {
  using S = simd<T>;
  using batch = typename S::batch;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const SoftmaxCall<T> call(*rows);
  const bool plain = call.plan.plain();
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride, y += rows->y_stride) {
    const std::size_t cols = call.plan.visible_cols(r);
    if (!plain) MadeScores<T>(call.plan, x, r).write(y, cols);
    const PlainScores<T> scores{plain ? x : y};
    const RowMax<T> row(call.plan, call.k, r, cols, max_of<T>(scores, cols));
    if (row.kind == RowKind::regular) [[likely]] {
      const double sum = call.template sum_exponentials<false>(row, scores, cols, nullptr);
      const batch twice_c(static_cast<T>(2 * call.plan.c)), half(T(0.5)), half_max(T(0.5) * row.max);
      const batch minus_log(-static_cast<T>(call.finish(row, r, sum, true).log_sum));
      const auto log_probability = [&](batch v) __attribute__((always_inline)) {
        // Halves, as the difference of two numbers of the type may be out of its range where c times it is
        // not.
        return S::fma(twice_c, half * v - half_max, minus_log);
      };
      std::size_t i = 0;
      for (; cols - i >= S::width; i += S::width) S::store(y + i, log_probability(S::load(scores.v + i)));
      if (i < cols) S::store_first(y + i, log_probability(S::load_first(scores.v + i, cols - i)), cols - i);
    } else {
      fill_irregular(call.plan, r, row.kind, y, cols, -infinity);
    }
    if (cols < rows->cols) fill(y + cols, rows->cols - cols, -infinity);
  }
}

template <class T>
[[gnu::flatten]] T logsumexp_row(const SoftmaxCall<T> &call, const T *x, std::size_t r) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const std::size_t cols = call.plan.visible_cols(r);
  const float *sinks = call.plan.rows.options.sinks;
  const auto with = [&](const auto &scores) {
    const RowMax<T> row(call.plan, call.k, r, cols, max_of<T>(scores, cols));
    if (row.kind == RowKind::not_a_number) return std::numeric_limits<T>::quiet_NaN();
    if (row.kind == RowKind::nothing_visible) return sinks ? T{sinks[r]} : -infinity;
    if (row.kind == RowKind::all_minus_infinity) return -infinity;
    const double sum = call.template sum_exponentials<false>(row, scores, cols, nullptr);
    const T result =
        static_cast<T>(std::fma(call.plan.c, double{row.max}, call.finish(row, r, sum, true).log_sum));
    return sinks && result < T{sinks[r]} ? T{sinks[r]} : result;  // where sink / c was out of range
  };
  return call.plan.plain() ? with(PlainScores<T>{x}) : with(MadeScores<T>(call.plan, x, r));
}

template <class T>
void logsumexp(const T *x, T *out, const rapt::SoftmaxRows *rows) {
  const SoftmaxCall<T> call(*rows);
  for (std::size_t r = 0; r < rows->rows; ++r, x += rows->x_stride) out[r] = logsumexp_row(call, x, r);
}

}  // namespace
