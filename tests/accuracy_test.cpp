// The scalar level against 200-bit arithmetic, with the bounds that rapt.h promises. The other levels have
// the same bits, which the bitwise test asserts.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "oracle/oracle.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/inputs.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr double unit = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

// In units of 2^-24 or 2^-53.
template <class T>
constexpr double softmax_bound = sizeof(T) == 4 ? 6 : 10;
template <class T>
constexpr double log_bound = sizeof(T) == 4 ? 4 : 8;

template <class T>
struct RowProblem {
  std::vector<T> x;
  double scale = 1;
  double softcap = 0;
  std::vector<T> bias = {};
  std::vector<std::uint8_t> mask = {};
  const T *sink = nullptr;
};

template <class T>
oracle::RowErrors errors_of(const RowProblem<T> &problem) {
  const std::size_t n = problem.x.size();
  rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
  options.scale = problem.scale;
  options.softcap = problem.softcap;
  if (!problem.bias.empty()) options.bias = problem.bias.data();
  if (!problem.mask.empty()) options.mask = problem.mask.data();
  options.sinks = problem.sink;
  std::vector<T> probabilities(n), logs(n);
  T logsumexp = 0;
  REQUIRE(Api<T>::softmax(problem.x.data(), 0, probabilities.data(), 0, 1, n, &options) == RAPT_OK);
  REQUIRE(Api<T>::log_softmax(problem.x.data(), 0, logs.data(), 0, 1, n, &options) == RAPT_OK);
  REQUIRE(Api<T>::logsumexp(problem.x.data(), 0, &logsumexp, 1, n, &options) == RAPT_OK);

  const std::vector<bool> visible(problem.mask.begin(), problem.mask.end());
  oracle::Row<T> row{.x = problem.x, .scale = problem.scale, .softcap = problem.softcap};
  if (!problem.bias.empty()) row.bias = problem.bias.data();
  if (!problem.mask.empty()) row.visible = &visible;
  row.sink = problem.sink;
  return oracle::row_errors<T>(row, probabilities, logs, logsumexp);
}

struct Worst {
  double softmax = 0, log_softmax = 0, logsumexp = 0;
};

// The promises for a row without softcap and bias.
template <class T>
void check_promises(const oracle::RowErrors &errors, Worst &worst) {
  CHECK(errors.softmax <= softmax_bound<T> * unit<T>);
  CHECK(errors.log_softmax <= log_bound<T> * unit<T>);
  CHECK(errors.logsumexp <= log_bound<T> * unit<T>);
  CHECK(errors.flushed_wrongly == 0);
  worst.softmax = std::max(worst.softmax, errors.softmax / unit<T>);
  worst.log_softmax = std::max(worst.log_softmax, errors.log_softmax / unit<T>);
  worst.logsumexp = std::max(worst.logsumexp, errors.logsumexp / unit<T>);
}

template <class T>
void print(const char *what, const Worst &worst) {
  std::printf(
      "%s %-28s in units of 2^-%d: softmax %.3f of %.0f, log_softmax %.3f and logsumexp %.3f of %.0f\n",
      Api<T>::element, what, std::numeric_limits<T>::digits, worst.softmax, softmax_bound<T>,
      worst.log_softmax, worst.logsumexp, log_bound<T>);
}

template <class T>
std::vector<T> normal_row(std::size_t n, double sigma, double offset, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> x(n);
  for (T &value : x) value = static_cast<T>(sigma * random.gaussian() + offset);
  return x;
}

struct ScalarLevel {
  ForcedIsa forced{"scalar"};
};

}  // namespace

TEST_CASE_FIXTURE(ScalarLevel, "exp_f64") {
  Random random(1);
  double worst = 0, worst_input = 0;
  const auto check = [&](double x) {
    double y;
    rapt_exp_f64(&x, &y, 1);
    const double error = oracle::exp_error_in_ulps(x, y);
    if (!(error <= worst)) worst = error, worst_input = x;
  };
  const std::size_t samples = native_or_emulated<std::size_t>(150000, 300);
  for (std::size_t i = 0; i < samples; ++i) {
    check(1454.9 * random.uniform() - 745.13);  // everywhere
    check(37.1 * random.uniform() - 745.13);    // subnormal results
    check(2 * random.uniform() - 1);            // around 0
    check(std::ldexp(random.uniform() - 0.5, -static_cast<int>(random.below(60))));
    const auto n = static_cast<double>(random.below(2000)) - 1000;  // where the reduction changes its n
    const double x = (n + 0.5) * 0.6931471805599453 * (1 + (random.uniform() - 0.5) * 1e-13);
    if (x > -745.13 && x < 709.78) check(x);
  }
  std::printf("exp_f64 worst error %.5f ULP at %a\n", worst, worst_input);
  CHECK(worst < 1);
}

TEST_CASE_TEMPLATE("dot", T, float, double) {
  const ScalarLevel scalar;
  double worst = 0;
  for (const std::size_t n : Sizes{1, 2, 7, 64, 65, 100, 1000, 4096, 65536, 1 << 20}) {
    if (emulated() && n > 5000) continue;
    for (const double mean : {0.0, 1.0}) {
      const std::vector<T> a = normal_row<T>(n, 1, mean, n), b = normal_row<T>(n, 1, mean, n + 1);
      const double error = oracle::dot_error<T>(a, b, Api<T>::dot(a.data(), b.data(), n));
      worst = std::max(worst, error);
      CAPTURE(n);
      CHECK(error <= (sizeof(T) == 4 ? 1e-6 : 4e-15));
    }
  }
  std::printf("dot_%s worst error %.3g of the sum of magnitudes\n", Api<T>::element, worst);
}

TEST_CASE_TEMPLATE("exp_sum", T, float, double) {
  const ScalarLevel scalar;
  double worst = 0;
  for (const std::size_t n : Sizes{1, 2, 7, 64, 65, 100, 1000, 2048, 2049, 50257, 1 << 20}) {
    if (emulated() && n > 5000) continue;
    for (const double shift : {0.0, 30.0, -60.0}) {
      const std::vector<T> x = normal_row<T>(n, 3, 0, n), ones(n, T(1));
      std::vector<T> y(n);
      const T sum = Api<T>::exp_sum(x.data(), T(0.7), static_cast<T>(shift), y.data(), n);
      const double error = oracle::dot_error<T>(y, ones, sum);
      worst = std::max(worst, error);
      CAPTURE(n);
      CHECK(error < (sizeof(T) == 4 ? 1e-6 : 1e-14));
    }
  }
  std::printf("exp_sum_%s worst relative error %.3g\n", Api<T>::element, worst);
}

TEST_CASE_TEMPLATE("softmax, log_softmax and logsumexp of normal logits", T, float, double) {
  const ScalarLevel scalar;
  struct Distribution {
    const char *name;
    double sigma, offset;
  };
  for (const Distribution &logits :
       {Distribution{"N(0, 4)", 2, 0}, Distribution{"sigma 40", 40, 0}, Distribution{"offset 1e4", 2, 1e4},
        Distribution{"offset -1e4", 2, -1e4}, Distribution{"offset 1e6", 2, 1e6},
        Distribution{"offset -1e6", 40, -1e6}, Distribution{"sigma 300", 300, 0},
        Distribution{"offset 65536", 30, 65536}, Distribution{"sigma 1e-3", 1e-3, 0}}) {
    Worst worst;
    for (const std::size_t n : Sizes{1, 2, 3, 5, 8, 17, 31, 64, 100, 257, 1000, 2049, 4096, 10000, 50257}) {
      if (emulated() && n > 300) continue;
      for (const double scale : {1.0, 0.08838834764831845}) {
        if (n > 3000 && scale != 1) continue;
        CAPTURE(std::string(logits.name));
        CAPTURE(n);
        CAPTURE(scale);
        check_promises<T>(
            errors_of<T>({.x = normal_row<T>(n, logits.sigma, logits.offset, 7 + n), .scale = scale}), worst);
      }
    }
    print<T>(logits.name, worst);
  }
}

TEST_CASE_TEMPLATE("softmax of a million columns", T, float, double) {
  if (emulated()) return;
  const ScalarLevel scalar;
  Worst worst;
  check_promises<T>(errors_of<T>({.x = normal_row<T>(1000000, 2, 0, 99)}), worst);
  print<T>("a million columns", worst);
}

TEST_CASE_TEMPLATE("softmax of logits and scales of any magnitude", T, float, double) {
  const ScalarLevel scalar;
  Worst worst;
  for (const InputClass input :
       {InputClass::uniform, InputClass::denormals, InputClass::huge, InputClass::signed_zeros,
        InputClass::wide_exponents, InputClass::minus_infinities}) {
    for (const double scale :
         {1.0, 0.125, 0.3, -0.7, 1e-30, 1e30, -1e30, 65536.0, 65537.0, 1.52587890625e-5, 1e-5}) {
      for (const std::size_t n : Sizes{4, 33, 130}) {
        if (scale < 0 && input == InputClass::minus_infinities) continue;  // +inf: the row is NaN
        Random random(n);
        std::vector<T> x(n);
        fill<T>(input, random, x);
        CAPTURE(std::string(name_of(input)));
        CAPTURE(scale);
        CAPTURE(n);
        // |s| beyond T's range makes a logsumexp that T does not have.
        double largest = 0;
        for (const T value : x) {
          if (std::isfinite(value)) largest = std::max(largest, std::fabs(double{value}));
        }
        const bool fits = largest * std::fabs(scale) < double{std::numeric_limits<T>::max()} / 4;
        // A scale outside of this range rounds the scores, each by at most half a unit of |s|.
        const bool exact = std::fabs(scale) >= 0x1p-16 && std::fabs(scale) <= 0x1p16;
        if (!exact && !fits) continue;  // a score may be infinite
        const oracle::RowErrors errors = errors_of<T>({.x = x, .scale = scale});
        if (exact && fits) {
          check_promises<T>(errors, worst);
        } else {
          const double rounding = exact ? 0 : 2 * largest * std::fabs(scale);
          CHECK(errors.softmax <= (softmax_bound<T> + rounding) * unit<T>);
          if (!exact) CHECK(errors.log_softmax <= (log_bound<T> + rounding) * unit<T>);
          if (exact) CHECK(errors.flushed_wrongly == 0);
        }
      }
    }
  }
  for (const double magnitude : {1e30, -1e30}) {
    RowProblem<T> problem{.x = normal_row<T>(100, 2, 0, 5)};
    problem.x[3] = static_cast<T>(magnitude);
    check_promises<T>(errors_of(problem), worst);
  }
  print<T>("any magnitude", worst);
}

TEST_CASE_TEMPLATE("masked elements and sinks", T, float, double) {
  const ScalarLevel scalar;
  Worst worst;
  for (const std::size_t n : Sizes{2, 20, 150, 3000}) {
    if (emulated() && n > 300) continue;
    for (const T sink : {T(-3), T(0.5), T(7), T(60), T(200), T(-1000), T(1e30), T(-1e30)}) {
      for (const double offset : {0.0, 150.0, -150.0, 1e5, -1e5}) {
        for (const double scale : {1.0, 0.3}) {
          RowProblem<T> problem{.x = normal_row<T>(n, 3, offset, n), .scale = scale, .sink = &sink};
          Random random(n);
          problem.mask.resize(n);
          for (std::uint8_t &element : problem.mask) element = !random.one_in(3);
          problem.mask[0] = 1;
          for (std::size_t i = 0; i < n; ++i) {
            if (!problem.mask[i]) problem.x[i] = std::numeric_limits<T>::quiet_NaN();
          }
          CAPTURE(n);
          CAPTURE(sink);
          CAPTURE(offset);
          CAPTURE(scale);
          check_promises<T>(errors_of(problem), worst);
        }
      }
    }
  }
  print<T>("masks and sinks", worst);
}

// One large term, then the ones of which adding each loses most: just above half a unit of the first.
TEST_CASE_TEMPLATE("rows and dot products made to lose keep the larger bounds", T, float, double) {
  const ScalarLevel scalar;
  const double worst_row = sizeof(T) == 4 ? 72 : 140;
  const T just_above_half = sizeof(T) == 4 ? T(-16.64) : T(-36.74);
  double row = 0, dot = 0;
  for (const std::size_t n : Sizes{300, 2047, 2048, 2049, 50257}) {
    if (emulated() && n > 300) continue;
    RowProblem<T> problem{.x = std::vector<T>(n, just_above_half)};
    problem.x[0] = 0;
    const oracle::RowErrors errors = errors_of(problem);
    CAPTURE(n);
    CHECK(errors.softmax <= worst_row * unit<T>);
    CHECK(errors.log_softmax <= worst_row * unit<T>);
    CHECK(errors.logsumexp <= worst_row * unit<T>);
    row = std::max(row, errors.softmax / unit<T>);

    std::vector<T> a(n, static_cast<T>(1.375 * unit<T> / 2)), ones(n, T(1));
    a[0] = 1;
    const double lanes = sizeof(T) == 4 ? 64 : 32;
    const T got = Api<T>::dot(a.data(), ones.data(), n);
    const double error = oracle::dot_error<T>(a, ones, got);
    CHECK(error <= (static_cast<double>(n) / lanes + 8) * unit<T>);
    dot = std::max(dot, error / unit<T>);
  }
  std::printf("%s made to lose: softmax %.1f, dot %.1f units\n", Api<T>::element, row, dot);
}

TEST_CASE_TEMPLATE("softcap and bias round each score once or twice", T, float, double) {
  const ScalarLevel scalar;
  double worst = 0;
  for (const std::size_t n : Sizes{1, 2, 20, 150, 1000}) {
    if (emulated() && n > 300) continue;
    for (const float softcap : {0.0f, 5.0f, 50.0f}) {
      for (const bool with_bias : {false, true}) {
        for (const double scale : {1.0, 0.3}) {
          RowProblem<T> problem{.x = normal_row<T>(n, 20, 0, n), .scale = scale, .softcap = softcap};
          Random random(n + 1);
          for (std::size_t i = 0; with_bias && i < n; ++i) {
            problem.bias.push_back(static_cast<float>(3 * random.gaussian()));
          }
          double largest = 0;
          for (const T x : problem.x) largest = std::max(largest, std::fabs(double{x} * scale));
          if (softcap != 0) largest = std::min(largest, double{softcap});
          // An absolute error of the exponent is a relative one of the probability.
          const double of_softcap = sizeof(T) == 4 ? 5 : 7;
          const double rounding = softcap != 0 ? (of_softcap + 1) * largest + (with_bias ? 12 : 0)
                                  : with_bias  ? 2 * largest + 12
                                               : 0;
          const oracle::RowErrors errors = errors_of(problem);
          CAPTURE(n);
          CAPTURE(softcap);
          CAPTURE(with_bias);
          CAPTURE(scale);
          CHECK(errors.softmax <= (softmax_bound<T> + 2 * rounding) * unit<T>);
          CHECK(errors.log_softmax <= (log_bound<T> + 2 * rounding) * unit<T>);
          CHECK(errors.logsumexp <= (log_bound<T> + rounding) * unit<T>);
          worst = std::max(worst, errors.softmax / unit<T>);
        }
      }
    }
  }
  std::printf("%s softcap and bias: softmax's worst relative error %.1f * 2^-%d\n", Api<T>::element, worst,
              std::numeric_limits<T>::digits);
}

TEST_CASE_TEMPLATE("softmax_backward", T, float, double) {
  const ScalarLevel scalar;
  double worst = 0;
  for (const std::size_t n : Sizes{1, 2, 3, 17, 64, 100, 1000, 4097, 50257}) {
    if (emulated() && n > 300) continue;
    for (const double sigma : {2.0, 40.0}) {
      for (const T scale : {T(1), static_cast<T>(0.08838834764831845), T(-3)}) {
        const std::vector<T> x = normal_row<T>(n, sigma, 0, n),
                             dy = normal_row<T>(n, 1, sigma == 2 ? 0 : 5, n + 9);
        std::vector<T> y(n), dx(n);
        REQUIRE(Api<T>::softmax(x.data(), 0, y.data(), 0, 1, n, nullptr) == RAPT_OK);
        // Products of such small probabilities would underflow, of which the bound does not speak.
        for (T &p : y) p = p < std::numeric_limits<T>::min() / unit<T> * T(64) ? T(0) : p;
        REQUIRE(Api<T>::softmax_backward(y.data(), 0, dy.data(), 0, dx.data(), 0, 1, n, scale) == RAPT_OK);
        const double error = oracle::softmax_backward_error<T>(y, dy, double{scale}, dx);
        worst = std::max(worst, error);
        CAPTURE(n);
        CAPTURE(sigma);
        CHECK(error <= (sizeof(T) == 4 ? 1e-6 : 4e-15));
      }
    }
  }
  std::printf("softmax_backward_%s worst error %.3g of the bound's magnitude\n", Api<T>::element, worst);
}
