#include "oracle/oracle.hpp"

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "oracle/bounds.hpp"
#include "support/bits.hpp"

namespace rapt::test::oracle {
namespace {

// Keeps the error of sums and products of doubles far below the last bit of f64.
constexpr mpfr_prec_t precision = 200;

class Real {
 public:
  Real() { mpfr_init2(value_, precision); }
  explicit Real(double value) : Real() { mpfr_set_d(value_, value, MPFR_RNDN); }
  ~Real() { mpfr_clear(value_); }
  Real(const Real &other) : Real() { mpfr_set(value_, other.value_, MPFR_RNDN); }
  Real &operator=(const Real &other) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }

  Real &set(double value) { return mpfr_set_d(value_, value, MPFR_RNDN), *this; }
  Real &add(const Real &other) { return mpfr_add(value_, value_, other.value_, MPFR_RNDN), *this; }
  Real &add(double other) { return mpfr_add_d(value_, value_, other, MPFR_RNDN), *this; }
  Real &sub(const Real &other) { return mpfr_sub(value_, value_, other.value_, MPFR_RNDN), *this; }
  Real &mul(const Real &other) { return mpfr_mul(value_, value_, other.value_, MPFR_RNDN), *this; }
  Real &mul(double other) { return mpfr_mul_d(value_, value_, other, MPFR_RNDN), *this; }
  Real &div(const Real &other) { return mpfr_div(value_, value_, other.value_, MPFR_RNDN), *this; }
  Real &div(double other) { return mpfr_div_d(value_, value_, other, MPFR_RNDN), *this; }
  Real &abs() { return mpfr_abs(value_, value_, MPFR_RNDN), *this; }
  Real &exp() { return mpfr_exp(value_, value_, MPFR_RNDN), *this; }
  Real &log() { return mpfr_log(value_, value_, MPFR_RNDN), *this; }
  Real &sin() { return mpfr_sin(value_, value_, MPFR_RNDN), *this; }
  Real &cos() { return mpfr_cos(value_, value_, MPFR_RNDN), *this; }
  Real &tanh() { return mpfr_tanh(value_, value_, MPFR_RNDN), *this; }

  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }
  bool is_zero() const { return mpfr_zero_p(value_) != 0; }
  bool operator<(const Real &other) const { return mpfr_less_p(value_, other.value_) != 0; }
  int compare(double other) const { return mpfr_cmp_d(value_, other); }

 private:
  mpfr_t value_;
};

// Returns |got - exact| / max(1, |exact|).
double error_above_one(const Real &exact, double got) {
  if (!std::isfinite(got)) return std::numeric_limits<double>::infinity();
  const double error = Real(exact).sub(Real(got)).abs().to_double();
  return error / std::max(1.0, std::fabs(exact.to_double()));
}

}  // namespace

template <class T>
double exp_error_in_ulps(T x, T y) {
  if (!std::isfinite(y)) return std::numeric_limits<double>::infinity();
  const Real exact = Real(double{x}).exp();
  const double ulp = ulp_at<T>(exact.to_double());
  return Real(exact).sub(Real(double{y})).abs().div(ulp).to_double();
}

template <class T>
double dot_error(std::span<const T> a, std::span<const T> b, T dot) {
  Real sum(0), magnitude(0), product;
  for (std::size_t i = 0; i < a.size(); ++i) {
    product.set(double{a[i]}).mul(double{b[i]});
    sum.add(product);
    magnitude.add(product.abs());
  }
  const Real error = Real(double{dot}).sub(sum).abs();
  return magnitude.is_zero() ? error.to_double() : Real(error).div(magnitude).to_double();
}

template <class T>
RowErrors row_errors(const Row<T> &row, std::span<const T> softmax, std::span<const T> log_softmax,
                     T logsumexp) {
  const std::size_t n = row.x.size();
  std::vector<Real> scores;
  std::vector<std::size_t> columns;  // columns of the scores that are not -inf
  for (std::size_t i = 0; i < n; ++i) {
    if ((row.visible && !(*row.visible)[i]) || std::isinf(row.x[i])) continue;
    if (row.bias && std::isinf(row.bias[i])) continue;
    Real s(double{row.x[i]});
    s.mul(row.scale);
    if (row.softcap != 0) s.div(row.softcap).tanh().mul(row.softcap);
    if (row.bias) s.add(double{row.bias[i]});
    columns.push_back(i);
    scores.push_back(s);
  }
  Real max = *std::max_element(scores.begin(), scores.end());
  if (row.sink && max < Real(double{*row.sink})) max.set(double{*row.sink});

  std::vector<Real> exponentials;
  Real sum(0);
  for (const Real &s : scores) {
    exponentials.push_back(Real(s).sub(max).exp());
    sum.add(exponentials.back());
  }
  if (row.sink) sum.add(Real(double{*row.sink}).sub(max).exp());
  const Real log_of_sum = Real(sum).log().add(max);

  RowErrors errors;
  const double unit = std::numeric_limits<T>::epsilon() / 2;
  const double smallest = std::numeric_limits<T>::min();
  for (std::size_t k = 0; k < scores.size(); ++k) {
    const double got = double{softmax[columns[k]]};
    Real exact = exponentials[k].div(sum);
    // A probability within rounding of the smallest normal number may be flushed to 0 or not.
    const bool is_normal = exact.compare(smallest * (1 + 8 * unit)) > 0;
    const bool is_tiny = exact.compare(smallest * (1 - 8 * unit)) < 0;
    if (got == 0 || is_tiny) {
      errors.flushed_wrongly += got == 0 ? is_normal : true;
    } else {
      const double error = Real(got).sub(exact).abs().div(exact).to_double();
      if (!(error <= errors.softmax)) errors.softmax = error;
    }
    const double log_error =
        error_above_one(Real(scores[k]).sub(log_of_sum), double{log_softmax[columns[k]]});
    if (!(log_error <= errors.log_softmax)) errors.log_softmax = log_error;
  }
  errors.logsumexp = error_above_one(log_of_sum, double{logsumexp});
  return errors;
}

template <class T>
double softmax_backward_error(std::span<const T> y, std::span<const T> dy, double scale,
                              std::span<const T> dx) {
  Real dot(0), magnitude(0), product;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) continue;
    product.set(double{y[i]}).mul(double{dy[i]});
    dot.add(product);
    magnitude.add(product.abs());
  }
  double worst = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 0) {
      if (dx[i] != 0) worst = std::numeric_limits<double>::infinity();
      continue;
    }
    const Real exact = Real(double{dy[i]}).sub(dot).mul(double{y[i]}).mul(scale);
    const Real bound = Real(std::fabs(double{dy[i]})).add(magnitude).mul(double{y[i]}).mul(std::fabs(scale));
    const Real error = Real(double{dx[i]}).sub(exact).abs();
    if (bound.is_zero() && error.is_zero()) continue;
    const double relative = Real(error).div(bound).to_double();
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

#define INSTANTIATE(T)                                                                         \
  template double exp_error_in_ulps<T>(T, T);                                                  \
  template double dot_error<T>(std::span<const T>, std::span<const T>, T);                     \
  template RowErrors row_errors<T>(const Row<T> &, std::span<const T>, std::span<const T>, T); \
  template double softmax_backward_error<T>(std::span<const T>, std::span<const T>, double,    \
                                            std::span<const T>);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

TurnErrors turn_errors(double position, double frequency, double sine, double cosine, double units,
                       double smallest) {
  const Real angle = Real(position).mul(frequency);
  const double of_angle = angle_bound * std::fabs(angle.to_double()) + smallest;
  const auto error = [&](const Real &exact, double got) {
    const double allowed = units * std::fabs(exact.to_double()) + of_angle;
    return Real(exact).sub(Real(got)).abs().div(allowed).to_double();
  };
  return {error(Real(angle).sin(), sine), error(Real(angle).cos(), cosine)};
}

double frequency_error_in_ulps(double base, std::size_t i, std::size_t dim, double f) {
  const Real exact = Real(base).log().mul(-2.0 * static_cast<double>(i)).div(static_cast<double>(dim)).exp();
  return Real(exact).sub(Real(f)).abs().div(ulp_at<double>(exact.to_double())).to_double();
}

}  // namespace rapt::test::oracle
