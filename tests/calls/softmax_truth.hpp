// What softmax, log_softmax, logsumexp and softmax_backward should give: the exact numbers, and the special values of
// rapt.h.
#pragma once

#include <optional>
#include <vector>

#include "calls/softmax.hpp"
#include "validate/accuracy_parts.hpp"

namespace rapt::validate {

// What rapt.h says of a row: only regular ones have accuracy.
enum class RowKind { regular, nothing_visible, all_minus_infinity, not_a_number };

// The log-sum-exp of these is the sink, or -inf without one.
inline bool is_empty(RowKind kind) {
  return kind == RowKind::nothing_visible || kind == RowKind::all_minus_infinity;
}

// Holds the exact scores of one row, and its log-sum-exp in two parts.
struct ScoreRow {
  std::vector<Real> score;  // -inf where excluded
  std::vector<bool> visible;
  RowKind kind = RowKind::regular;
  bool may_overflow = false;  // a score may be beyond the type's range
  Real sink = 0;
  Real max = 0, log_sum = 0;  // log-sum-exp is max + log_sum
};

template <class E>
class ScoreRows {
  using T = Number<E>;

  // Bounds the relative error of tanh(z) in units u. Measured: f32 2.9891 over all floats (--exhaustive), f64
  // 3.48 in millions of samples by MPFR, near |z| = 0.1733. There q = exp(-2|z|) - 1 = e / 2 - 1/2, with e =
  // exp(r) - 1 and r = ln 2 - 2|z|. tanh = -q / (2 + q) has these errors:
  //   q = fma(1/2, e, -1/2):                      1          rounding q
  //   e, half of which is 0.7 q:                  0.7        rounding e
  //   r:                                          0.8        rounding r, times exp(r) / 2, over q
  //   the polynomial e - r, a sixth of e:         0.3        r * r, its last step and its own error
  //   times 2 / (2 + q) = 1.17:                              the sum of 2.8 becomes 3.3
  //   2 + q, and the quotient:                    0.6 + 1    rounding both
  static constexpr double tanh_error = is_f64<T> ? 5 : 3;

 public:
  explicit ScoreRows(const Problem &problem)
      : problem_(problem.as<SoftmaxProblem>()),
        x_(make_operands<E>(Family::softmax, problem).first),
        values_(make_option_values<T>(problem)) {
    scale_ = options().null || problem_.scale == 0 ? 1 : static_cast<Real>(problem_.scale);
  }

  double scale() const { return as_double(scale_); }
  const SoftmaxOptions &options() const { return problem_.options; }

  // Returns the error of a rounded score, in units u. A probability and its logarithm have this error twice,
  // from the score and from the sum. A log-sum-exp has it once. s is the score before the bias:
  //   a bias:     |bias| + |s + bias|, from rounding 1 / scale and the sum with the bias
  //   a softcap:  (2 + tanh_error) |s| + |s + bias|, from scale / softcap, x times that, tanh, and the
  //               product with the softcap or the sum with the bias. tanh does not increase the relative
  //               error of its argument.
  double rounding() const {
    const SoftmaxOptions &wanted = options();
    if (wanted.null || (wanted.softcap == 0 && wanted.bias == PerRow::none)) return 0;
    const Real bias = wanted.bias != PerRow::none ? 16 : 0;
    Real largest = 0;
    for (const E x : x_) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(Real{x} * scale_));
    }
    if (wanted.softcap != 0) largest = std::min(largest, static_cast<Real>(wanted.softcap));
    return as_double((wanted.softcap != 0 ? (2 + tanh_error) * largest : bias) + largest + bias);
  }

  bool visible(std::size_t r, std::size_t c) const {
    const SoftmaxOptions &wanted = options();
    if (wanted.null) return true;
    const auto at = [&](PerRow choice) { return (choice == PerRow::each ? r * problem_.cols : 0) + c; };
    if (wanted.row_lengths && c >= values_.lengths[r]) return false;
    if (wanted.causal) {
      const Real last = static_cast<Real>(r) + static_cast<Real>(*wanted.causal);
      if (static_cast<Real>(c) > last) return false;
    }
    if (wanted.mask != PerRow::none && values_.mask[at(wanted.mask)] == 0) return false;
    return wanted.bias == PerRow::none ||
           values_.bias[at(wanted.bias)] != -std::numeric_limits<T>::infinity();
  }

  ScoreRow row(std::size_t r) const {
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    const SoftmaxOptions &wanted = options();
    ScoreRow made;
    made.max = -infinity;
    bool finite = true, any_visible = false;
    for (std::size_t c = 0; c < problem_.cols; ++c) {
      Real score = -infinity;
      made.visible.push_back(visible(r, c));
      any_visible = any_visible || made.visible.back();
      if (made.visible.back()) {
        score = scale_ * Real{x_[r * problem_.cols + c]};
        made.may_overflow = made.may_overflow || (std::isfinite(score) &&
                                                  std::fabs(score) > std::numeric_limits<T>::max() / Real{4});
        if (!wanted.null && wanted.softcap != 0) {
          const Real cap = static_cast<Real>(wanted.softcap);
          score = cap * std::tanh(score / cap);
        }
        if (!wanted.null && wanted.bias != PerRow::none) {
          score += values_.bias[(wanted.bias == PerRow::each ? r * problem_.cols : 0) + c];
        }
        finite = finite && score < infinity;
      }
      made.score.push_back(score);
      made.max = std::max(made.max, score);
    }
    const bool has_sink = wanted.sinks && !wanted.null;
    const Real sink = made.sink = has_sink ? Real{values_.sinks[r]} : -infinity;
    made.kind = !any_visible                                 ? RowKind::nothing_visible
                : !finite || !(sink < infinity)              ? RowKind::not_a_number
                : made.max == -infinity && sink == -infinity ? RowKind::all_minus_infinity
                                                             : RowKind::regular;
    if (made.kind != RowKind::regular) return made;
    made.max = std::max(made.max, sink);
    Sum sum;
    for (const Real score : made.score) sum.add(std::exp(score - made.max));
    sum.add(std::exp(sink - made.max));
    made.log_sum = std::log(sum.value());
    return made;
  }

 private:
  const SoftmaxProblem &problem_;
  std::vector<E> x_;
  OptionValues<T> values_;
  Real scale_;
};

inline bool scores_are_moderate(const Problem &problem) {
  return is_moderate(problem.input) || problem.input == InputClass::denormals ||
         problem.input == InputClass::signed_zeros || problem.input == InputClass::minus_infinities;
}

// Calls judge_row(row, bits of the row's results, rounding error of a score, worst) for each regular row.
//
// Excluded elements are `excluded` in every row, and rows of -inf too, where the options say so. A log-sum-exp has
// none.
template <class T, class JudgeRow>
Judgement judge_rows(const Problem &problem, Bits bits, std::size_t width, std::optional<Real> excluded,
                     double bound, JudgeRow &&judge_row) {
  if (problem.rows() == 0 || problem.cols() == 0) return {};
  const ScoreRows<T> scores(problem);
  const bool is_accurate = scores_are_moderate(problem) && is_ordinary(scores.scale());
  Worst worst;
  for (std::size_t r = 0; r < problem.rows(); ++r) {
    const ScoreRow row = scores.row(r);
    const Bits got = bits.subspan(r * width, width);
    const bool is_excluded = row.kind == RowKind::nothing_visible ||
                             (row.kind == RowKind::all_minus_infinity && !scores.options().null &&
                              scores.options().empty_rows_are_zero);
    const Real sum = value_of<T>(got[0]);
    if (!excluded && row.kind == RowKind::not_a_number && !row.may_overflow && !std::isnan(sum))
      worst.see(wrong, bound);
    if (!excluded && is_empty(row.kind) && !(sum == row.sink || (std::isnan(sum) && std::isnan(row.sink))))
      worst.see(wrong, bound);
    for (std::size_t c = 0; excluded && c < width; ++c) {
      const Real value = value_of<T>(got[c]);
      const bool is_as_said = is_excluded || !row.visible[c]
                                  ? value == *excluded && std::signbit(value) == std::signbit(*excluded)
                                  : row.kind == RowKind::regular || row.may_overflow || std::isnan(value);
      if (!is_as_said) worst.see(wrong, bound);
    }
    if (row.kind == RowKind::regular && is_accurate) judge_row(row, got, scores.rounding(), worst);
  }
  return worst.judgement;
}

template <class T>
double error_above_one(Real exact, Real got) {
  if (sizeof(T) == 2 && std::isinf(got) && std::signbit(got) == std::signbit(exact)) {
    // A number at least halfway from the largest element to the next power of 2 is rounded to infinity.
    using Limits = std::numeric_limits<T>;
    const Real overflow = std::ldexp(1 - std::ldexp(Real{1}, -Limits::digits - 1), Limits::max_exponent);
    return as_double(std::max(overflow - std::fabs(exact), Real{0}) / std::fabs(exact)) / unit<T>;
  }
  if (!std::isfinite(got)) return wrong;
  return as_double(distance<T>(got, exact) / std::max(Real{1}, std::fabs(exact))) / unit<T>;
}

template <class T>
struct SoftmaxAccuracy {
  static constexpr const char *unit_text = is_f64<T> ? "2^-53 relative" : "2^-24 relative";
  static constexpr double bound = softmax_bound<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    constexpr Real smallest = std::numeric_limits<Number<T>>::min();
    return judge_rows<T>(problem, bits, problem.cols(), 0, bound,
                         [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
                           const double allowed = bound + 2 * rounding;
                           for (std::size_t c = 0; c < got.size(); ++c) {
                             const Real exact = std::exp(row.score[c] - row.max - row.log_sum);
                             const Real probability = value_of<T>(got[c]);
                             // Near the smallest normal number, a flushed result and a normal result are both correct.
                             const Real margin = smallest * static_cast<Real>(2 * allowed * unit<T>);
                             const bool flushed = probability == 0 && exact < smallest + margin;
                             if (flushed || exact < smallest - margin) {
                               worst.see(flushed ? 0 : wrong, allowed);
                             } else {
                               worst.see(as_double(distance<T>(probability, exact) / exact) / unit<T>,
                                         allowed);
                             }
                           }
                         });
  }
};

template <class T>
struct LogSoftmaxAccuracy {
  static constexpr const char *unit_text = is_f64<T> ? "2^-53 max(1,|y|)" : "2^-24 max(1,|y|)";
  static constexpr double bound = log_bound<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    return judge_rows<T>(
        problem, bits, problem.cols(), -std::numeric_limits<Real>::infinity(), bound,
        [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
          for (std::size_t c = 0; c < got.size(); ++c) {
            const Real exact = row.score[c] - row.max - row.log_sum, log = value_of<T>(got[c]);
            const bool is_excluded = !std::isfinite(exact);
            worst.see(is_excluded ? (log == exact ? 0 : wrong) : error_above_one<T>(exact, log),
                      bound + 2 * rounding);
          }
        });
  }
};

template <class T>
struct LogsumexpAccuracy {
  static constexpr const char *unit_text = LogSoftmaxAccuracy<T>::unit_text;
  static constexpr double bound = log_bound<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    return judge_rows<T>(problem, bits, 1, std::nullopt, bound,
                         [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
                           worst.see(error_above_one<T>(row.max + row.log_sum, value_of<T>(got[0])),
                                     bound + rounding);
                         });
  }
};

template <class T>
struct SoftmaxBackwardAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 |s|y(|dy|+sum)" : "2^-53 |s|y(|dy|+sum)";
  static constexpr double bound = softmax_backward_bound<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    const bool has_probabilities =
        problem.input == InputClass::uniform || problem.input == InputClass::gaussian;
    const auto &wanted = problem.as<SoftmaxBackwardProblem>();
    if (!has_probabilities || !is_ordinary(wanted.scale)) return {};
    const auto [y, dy] = make_operands<T>(Family::softmax_backward, problem);
    const Real scale = static_cast<T>(wanted.scale);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      Sum sum, magnitude;
      for (std::size_t c = r * wanted.cols; c < (r + 1) * wanted.cols; ++c) {
        sum.add(Real{y[c]} * Real{dy[c]});
        magnitude.add(std::fabs(Real{y[c]} * Real{dy[c]}));
      }
      for (std::size_t c = r * wanted.cols; c < (r + 1) * wanted.cols; ++c) {
        const Real exact = scale * Real{y[c]} * (Real{dy[c]} - sum.value());
        const Real most = std::fabs(scale) * Real{y[c]} * (std::fabs(Real{dy[c]}) + magnitude.value());
        const Real off = std::fabs(value_of<T>(bits[c]) - exact);
        worst.see(off == 0 ? 0 : as_double(off / most) / unit<T>,
                  std::min(bound, softmax_backward_worst_bound<T>(wanted.cols)));
      }
    }
    return worst.judgement;
  }
};

template <class T>
struct LogSoftmaxBackwardAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const bool has_probabilities =
        problem.input == InputClass::uniform || problem.input == InputClass::gaussian;
    const auto &wanted = problem.as<SoftmaxBackwardProblem>();
    if (!has_probabilities || !is_ordinary(wanted.scale)) return {};
    const auto operands = make_operands<T>(Family::softmax_backward, problem);
    const std::vector<T> y = like_logarithms(operands.first);
    const std::vector<T> &dy = operands.second;
    const Real scale = static_cast<T>(wanted.scale);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      Sum sum, magnitude;
      for (std::size_t c = r * wanted.cols; c < (r + 1) * wanted.cols; ++c) {
        sum.add(Real{dy[c]});
        magnitude.add(std::fabs(Real{dy[c]}));
      }
      for (std::size_t c = r * wanted.cols; c < (r + 1) * wanted.cols; ++c) {
        const Real e = std::exp(Real{y[c]});
        const Real exact = scale * (Real{dy[c]} - e * sum.value());
        const Real most = std::fabs(scale) * (std::fabs(Real{dy[c]}) + e * magnitude.value());
        const Real allowed = (softmax_backward_worst_bound<T>(wanted.cols) + 2) * Real{unit<T>} * most +
                             (std::fabs(scale) * (magnitude.value() + 1) + 1) * smallest<T>;
        worst.see(as_double(std::fabs(value_of<T>(bits[c]) - exact) / allowed), bound);
      }
    }
    return worst.judgement;
  }
};

}  // namespace rapt::validate
