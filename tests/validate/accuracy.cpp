#include "validate/accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "support/attention_accuracy.hpp"
#include "support/attention_backward_accuracy.hpp"
#include "support/attention_backward_case.hpp"
#include "support/attention_data.hpp"
#include "support/bits.hpp"
#include "support/problem_data.hpp"

namespace rapt::validate {
namespace {

using namespace rapt::test;

using Real = long double;
using Bits = std::span<const std::uint64_t>;
constexpr double wrong = std::numeric_limits<double>::infinity();

template <class T>
constexpr bool measurable = std::numeric_limits<Real>::digits >= std::numeric_limits<T>::digits + 10;

// Half the distance of 1 to the next number.
template <class T>
constexpr double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

template <class T>
Real value_of(std::uint64_t bits) {
  return from_bits<T>(static_cast<BitsOf<T>>(bits));
}

double as_double(Real value) { return static_cast<double>(value); }

// A sum that keeps what each addition loses (Neumaier).
class Sum {
 public:
  void add(Real term) {
    const Real sum = sum_ + term;
    lost_ += std::fabs(sum_) >= std::fabs(term) ? (sum_ - sum) + term : (term - sum) + sum_;
    sum_ = sum;
  }
  Real value() const { return sum_ + lost_; }

 private:
  Real sum_ = 0, lost_ = 0;
};

struct Worst {
  Judgement judgement;
  void see(double error, double bound) {
    judgement.measured = true;
    // Errors are reported by how much of their bound they take.
    if (!(error / bound <= judgement.error / judgement.bound))
      judgement.error = error, judgement.bound = bound;
  }
};

// Inputs whose sums and products neither overflow nor underflow.
bool is_moderate(InputClass input) {
  return input == InputClass::uniform || input == InputClass::gaussian ||
         input == InputClass::gaussian_wide || input == InputClass::exp_range;
}

bool is_ordinary(double scale) { return std::fabs(scale) >= 0x1p-16 && std::fabs(scale) <= 0x1p16; }

// ---- vectors ----

template <class T>
struct DotAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 sum|ab|" : "2^-53 sum|ab|";
  static constexpr double bound = (sizeof(T) == 4 ? 1e-6 : 4e-15) / unit<T>;

  static double error(std::span<const T> a, std::span<const T> b, Real factor, Real got) {
    Sum sum, magnitude;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Real product = Real{a[i]} * Real{b[i]};
      sum.add(product);
      magnitude.add(std::fabs(product));
    }
    const Real most = std::fabs(factor) * magnitude.value();
    const Real off = std::fabs(got - factor * sum.value());
    if (most == 0) return off == 0 ? 0 : wrong;
    return as_double(off / most) / unit<T>;
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    if (!is_moderate(problem.input)) return {};
    const auto [a, b] = make_operands<T>(Family::two_vectors, problem);
    Worst worst;
    worst.see(error(a, b, 1, value_of<T>(bits[0])), bound);
    return worst.judgement;
  }
};

template <class T>
struct DotRowsAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 |s|sum|ab|" : "2^-53 |s|sum|ab|";
  static constexpr double bound = DotAccuracy<T>::bound + 1;  // the product with the scale rounds once more

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto &wanted = problem.as<DotRowsProblem>();
    if (!is_moderate(problem.input) || (wanted.scale != 0 && !is_ordinary(wanted.scale))) return {};
    const auto [query, rows] = make_operands<T>(Family::dot_rows, problem);
    Worst worst;
    for (std::size_t r = 0; r < wanted.rows; ++r) {
      const auto row = std::span(rows).subspan(r * wanted.cols, wanted.cols);
      const Real factor = static_cast<T>(wanted.scale);
      worst.see(DotAccuracy<T>::error(query, row, factor, value_of<T>(bits[r])), bound);
    }
    return worst.judgement;
  }
};

// |got - exact| in units in the last place of T around exact; 2^-149 or 2^-1074 among subnormal numbers.
template <class T>
double ulps(Real exact, Real got) {
  int exponent;
  std::frexp(exact, &exponent);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent) - std::numeric_limits<T>::digits;
  return as_double(std::ldexp(std::fabs(got - exact), -exponent));
}

template <class T>
struct ScaleAccuracy {
  static constexpr const char *unit_text = "ULP";
  // The product in long double is itself rounded at its 64th bit.
  static constexpr double bound = 0.5 + 0x1p-10;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    const T factor = static_cast<T>(problem.as<VectorProblem>().scale);
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const Real exact = Real{x[i]} * Real{factor}, got = value_of<T>(bits[i]);
      if (!std::isfinite(exact) || !std::isfinite(got)) continue;
      worst.see(ulps<T>(exact, got), bound);
    }
    return worst.judgement;
  }
};

template <class T>
struct ExpAccuracy {
  static constexpr const char *unit_text = "ULP";
  static constexpr double bound = sizeof(T) == 4 ? 0.8925 : 1;  // 0.892 to three digits

  static double error(T x, Real got) {
    const Real exact = std::exp(Real{x});
    const Real largest = std::numeric_limits<T>::max();
    const Real overflow = largest + largest * static_cast<Real>(unit<T>) / 2;
    if (exact >= overflow) return std::isinf(got) ? 0 : wrong;
    if (!std::isfinite(got) || std::signbit(got)) return wrong;
    return ulps<T>(exact, got);
  }
  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    Worst worst;
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i])) worst.see(error(x[i], value_of<T>(bits[i])), bound);
    }
    return worst.judgement;
  }
};

// The elements as exp has them, and the sum against the elements that were written.
template <class T>
struct ExpSumAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 of sum" : "2^-53 of sum";
  static constexpr double bound = (sizeof(T) == 4 ? 1e-6 : 1e-14) / unit<T>;

  static Judgement judge(const Problem &problem, Bits bits) {
    const auto x = make_operands<T>(Family::vector, problem).first;
    const auto &wanted = problem.as<VectorProblem>();
    const T scale = static_cast<T>(wanted.scale), shift = static_cast<T>(wanted.shift);
    Worst worst;
    Sum sum;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T t = std::fma(scale, x[i], -shift);
      const Real y = value_of<T>(bits[i]);
      if (!std::isfinite(t) || !std::isfinite(y)) return {};
      if (!(ExpAccuracy<T>::error(t, y) < ExpAccuracy<T>::bound)) worst.see(wrong, bound);
      sum.add(y);
    }
    const Real got = value_of<T>(bits[x.size()]), exact = sum.value();
    if (exact >= Real{std::numeric_limits<T>::max()}) return worst.judgement;
    // Subnormal sums are exact; anything else has a relative error.
    const Real off = std::fabs(got - exact);
    worst.see(off == 0 ? 0 : as_double(off / exact) / unit<T>, bound);
    return worst.judgement;
  }
};

// ---- rows ----

// The scores of one row in Real, of visible elements only; and its log-sum-exp in two parts.
struct ScoreRow {
  std::vector<Real> score;    // -inf where excluded
  bool regular = false;       // some visible score is finite, none is NaN or +inf
  Real max = 0, log_sum = 0;  // log-sum-exp is max + log_sum
};

template <class T>
class ScoreRows {
  // Of tanh, in units of it. f32: 2.9891, over all floats (--exhaustive). f64: 3.48 in millions of samples by
  // MPFR, near |z| = 0.1733, from where on exp(-2|z|) - 1 = q is a difference. There, of tanh = -q / (2 + q):
  //   q = fma(1/2, e, -1/2), of e = exp(r) - 1:   1          rounding it
  //   e, half of which is 0.7 q:                  0.7        rounding it
  //   r = t - n ln 2:                             0.8        rounding it (times exp(r) / 2, over q)
  //   the polynomial in e, a sixth of it:         0.3        r * r, its last step and its own error
  //   times 2 / (2 + q) = 1.17:                   2.8 becomes 3.3
  //   2 + q, and the quotient:                    0.6 + 1    rounding them
  static constexpr double tanh_error = sizeof(T) == 4 ? 3 : 5;

 public:
  explicit ScoreRows(const Problem &problem)
      : problem_(problem.as<SoftmaxProblem>()),
        x_(make_operands<T>(Family::softmax, problem).first),
        values_(make_option_values<T>(problem)) {
    scale_ = options().null || problem_.scale == 0 ? 1 : static_cast<Real>(problem_.scale);
  }

  double scale() const { return as_double(scale_); }
  const SoftmaxOptions &options() const { return problem_.options; }

  // What the roundings of a score add to its error, in units: of a probability and its logarithm twice that,
  // as the score and the sum err, of a log-sum-exp once. With s the score before a bias:
  //   a bias:     the scale as a number of the type; the sum with the bias: |s| + |s + bias|
  //   a softcap:  the scale over the cap, and x times that, as tanh passes on no more than the relative error
  //               of its argument; tanh; its product with the cap, or the sum with the bias:
  //               (2 + tanh_error) |s| + |s + bias|
  double rounding() const {
    const SoftmaxOptions &wanted = options();
    if (wanted.null || (wanted.softcap == 0 && wanted.bias == PerRow::none)) return 0;
    Real largest = 0;
    for (const T x : x_) {
      if (std::isfinite(x)) largest = std::max(largest, std::fabs(Real{x} * scale_));
    }
    if (wanted.softcap != 0) largest = std::min(largest, static_cast<Real>(wanted.softcap));
    const Real with_bias = largest + (wanted.bias != PerRow::none ? 16 : 0);
    return as_double((wanted.softcap != 0 ? 2 + tanh_error : 1) * largest + with_bias);
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
    bool finite = true;
    for (std::size_t c = 0; c < problem_.cols; ++c) {
      Real score = -infinity;
      if (visible(r, c)) {
        score = scale_ * Real{x_[r * problem_.cols + c]};
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
    const Real sink = has_sink ? Real{values_.sinks[r]} : -infinity;
    made.regular = finite && made.max > -infinity && sink < infinity;
    if (!made.regular) return made;
    made.max = std::max(made.max, sink);
    Sum sum;
    for (const Real score : made.score) sum.add(std::exp(score - made.max));
    sum.add(std::exp(sink - made.max));
    made.log_sum = std::log(sum.value());
    return made;
  }

 private:
  const SoftmaxProblem &problem_;
  std::vector<T> x_;
  OptionValues<T> values_;
  Real scale_;
};

bool scores_are_moderate(const Problem &problem) {
  return is_moderate(problem.input) || problem.input == InputClass::denormals ||
         problem.input == InputClass::signed_zeros || problem.input == InputClass::minus_infinities;
}

// judge_row(scores, row, bits of row r's results, what rounding adds to a score, worst) for each regular row.
template <class T, class JudgeRow>
Judgement judge_rows(const Problem &problem, Bits bits, std::size_t width, JudgeRow &&judge_row) {
  if (!scores_are_moderate(problem) || problem.rows() == 0 || problem.cols() == 0) return {};
  const ScoreRows<T> scores(problem);
  if (!is_ordinary(scores.scale())) return {};
  Worst worst;
  for (std::size_t r = 0; r < problem.rows(); ++r) {
    const ScoreRow row = scores.row(r);
    if (row.regular) judge_row(row, bits.subspan(r * width, width), scores.rounding(), worst);
  }
  return worst.judgement;
}

template <class T>
double error_above_one(Real exact, Real got) {
  if (!std::isfinite(got)) return wrong;
  return as_double(std::fabs(got - exact) / std::max(Real{1}, std::fabs(exact))) / unit<T>;
}

template <class T>
struct SoftmaxAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 relative" : "2^-53 relative";
  static constexpr double bound = sizeof(T) == 4 ? 6 : 10;

  static Judgement judge(const Problem &problem, Bits bits) {
    constexpr Real smallest = std::numeric_limits<T>::min();
    return judge_rows<T>(
        problem, bits, problem.cols(), [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
          const double allowed = bound + 2 * rounding;
          for (std::size_t c = 0; c < got.size(); ++c) {
            const Real exact = std::exp(row.score[c] - row.max - row.log_sum);
            const Real probability = value_of<T>(got[c]);
            // Around the smallest normal number, either side of the flush is right.
            const Real margin = smallest * static_cast<Real>(2 * allowed * unit<T>);
            const bool flushed = probability == 0 && exact < smallest + margin;
            if (flushed || exact < smallest - margin) {
              worst.see(flushed ? 0 : wrong, allowed);
            } else {
              worst.see(as_double(std::fabs(probability - exact) / exact) / unit<T>, allowed);
            }
          }
        });
  }
};

template <class T>
struct LogSoftmaxAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 max(1,|y|)" : "2^-53 max(1,|y|)";
  static constexpr double bound = sizeof(T) == 4 ? 4 : 8;

  static Judgement judge(const Problem &problem, Bits bits) {
    return judge_rows<T>(
        problem, bits, problem.cols(), [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
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
  static constexpr double bound = sizeof(T) == 4 ? 4 : 8;

  static Judgement judge(const Problem &problem, Bits bits) {
    return judge_rows<T>(problem, bits, 1, [](const ScoreRow &row, Bits got, double rounding, Worst &worst) {
      worst.see(error_above_one<T>(row.max + row.log_sum, value_of<T>(got[0])), bound + rounding);
    });
  }
};

template <class T>
struct SoftmaxBackwardAccuracy {
  static constexpr const char *unit_text = sizeof(T) == 4 ? "2^-24 |s|y(|dy|+sum)" : "2^-53 |s|y(|dy|+sum)";
  static constexpr double bound = (sizeof(T) == 4 ? 1e-6 : 4e-15) / unit<T>;

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
        worst.see(off == 0 ? 0 : as_double(off / most) / unit<T>, bound);
      }
    }
    return worst.judgement;
  }
};

// ---- attention ----

// Every query's worst share of its own bound. Partial results have no truth of their own; their merge has.
template <class T, bool is_partial>
struct AttentionAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    const bool is_measured = is_moderate(problem.input) || problem.input == InputClass::signed_zeros ||
                             problem.input == InputClass::odd_rows ||
                             problem.input == InputClass::minus_infinities;
    if (is_partial || !is_measured) return {};
    const oracle::Attention<T> a = make_attention<T>(problem);
    Worst worst;
    std::vector<T> out(a.v_dim);
    std::size_t at = 0;
    const auto is_ordinary_sink = [&](std::size_t h) {
      return a.sinks.empty() || std::fabs(a.sinks[h]) < std::numeric_limits<T>::max() / 2 ||
             std::isinf(a.sinks[h]);
    };
    for (std::size_t i = 0; i < a.q_len; ++i) {
      for (std::size_t b = 0; b < a.batch; ++b) {
        for (std::size_t h = 0; h < a.q_heads; ++h, at += a.v_dim + 1) {
          if (i >= a.queries(b) || !is_ordinary_sink(h)) continue;
          const oracle::AttentionTruth truth = oracle::attention_truth(a, b, h, i);
          if (!truth.is_finite || truth.is_empty) continue;
          for (std::size_t d = 0; d < a.v_dim; ++d)
            out[d] = from_bits<T>(static_cast<BitsOf<T>>(bits[at + d]));
          const T lse = from_bits<T>(static_cast<BitsOf<T>>(bits[at + a.v_dim]));
          const AttentionErrors errors = attention_errors<T>(truth, out, lse);
          const AttentionErrors bounds = attention_bounds(a.qk_dim, truth);
          worst.see(errors.out / bounds.out, bound);
          worst.see(errors.lse / bounds.lse, bound);
        }
      }
    }
    return worst.judgement;
  }
};
template <class T>
using AttentionWholeAccuracy = AttentionAccuracy<T, false>;
template <class T>
using AttentionPartialAccuracy = AttentionAccuracy<T, true>;

// The worst share of all gradients of the call, if all of them are finite.
template <class T>
struct AttentionBackwardAccuracy {
  static constexpr const char *unit_text = "share";
  static constexpr double bound = 1;

  static Judgement judge(const Problem &problem, Bits bits) {
    if (!is_moderate(problem.input) && problem.input != InputClass::minus_infinities) return {};
    const oracle::Attention<T> a = make_attention<T>(problem);
    for (const T sink : a.sinks) {
      if (std::fabs(sink) >= std::numeric_limits<T>::max() / 2) return {};
    }
    const oracle::GradientTruth truth =
        oracle::gradient_truth(a, make_output_gradient<T>(problem, a), gradient_units(a.qk_dim, a.v_dim));
    if (!truth.is_finite) return {};
    Worst worst;
    std::size_t at = 0;
    const auto see = [&](const std::vector<oracle::Sum> &sums) {
      const auto value = [&](std::size_t i) { return from_bits<T>(static_cast<BitsOf<T>>(bits[at + i])); };
      worst.see(gradient_error<T>(sums, value), bound);
      at += sums.size();
    };
    const WantedGradients wanted = wanted_gradients(problem, a);
    see(truth.dq);
    see(truth.dk);
    see(truth.dv);
    if (wanted.dbias) see(truth.dbias);
    if (wanted.dsinks) see(truth.dsinks);
    return worst.judgement;
  }
};

// ---- the list ----

// One type for each line of kernels.def. A kernel without an accuracy does not compile.
namespace kernel {
#define KERNEL(name, result, parameters, arguments) struct name;
#include "kernels/kernels.def"
#undef KERNEL
}  // namespace kernel

template <class Kernel>
struct AccuracyOf;

#define ACCURACY(name, Type)                             \
  template <>                                            \
  struct AccuracyOf<kernel::name##_f32> : Type<float> {  \
    using Element = float;                               \
  };                                                     \
  template <>                                            \
  struct AccuracyOf<kernel::name##_f64> : Type<double> { \
    using Element = double;                              \
  };
ACCURACY(dot, DotAccuracy)
ACCURACY(dot_rows, DotRowsAccuracy)
ACCURACY(scale, ScaleAccuracy)
ACCURACY(exp, ExpAccuracy)
ACCURACY(exp_sum, ExpSumAccuracy)
ACCURACY(softmax, SoftmaxAccuracy)
ACCURACY(log_softmax, LogSoftmaxAccuracy)
ACCURACY(logsumexp, LogsumexpAccuracy)
ACCURACY(softmax_backward, SoftmaxBackwardAccuracy)
ACCURACY(attention, AttentionWholeAccuracy)
ACCURACY(attention_partial, AttentionPartialAccuracy)
ACCURACY(attention_merge, AttentionWholeAccuracy)
ACCURACY(attention_backward, AttentionBackwardAccuracy)
#undef ACCURACY

template <class Kernel>
Judgement judge(const Problem &problem, const std::vector<std::uint64_t> &bits) {
  if constexpr (!measurable<typename AccuracyOf<Kernel>::Element>) return {};
  return AccuracyOf<Kernel>::judge(problem, bits);
}

constexpr Accuracy accuracies[] = {
#define KERNEL(name, result, parameters, arguments) \
  {#name, AccuracyOf<kernel::name>::unit_text, AccuracyOf<kernel::name>::bound, judge<kernel::name>},
#include "kernels/kernels.def"
#undef KERNEL
};

}  // namespace

const Accuracy *accuracy_of(const std::string &kernel) {
  for (const Accuracy &accuracy : accuracies) {
    if (kernel == accuracy.kernel) return &accuracy;
  }
  return nullptr;
}

}  // namespace rapt::validate
