// Compares the scalar level with 200-bit arithmetic, and checks that the errors keep the bounds of rapt.h.
// Other levels are not measured, because rapt-validate checks that they give the same bits.
#include <doctest/doctest.h>

#include <cstdio>
#include <string>

#include "oracle/bounds.hpp"
#include "oracle/oracle.hpp"
#include "support/bits.hpp"
#include "support/effort.hpp"
#include "support/inputs.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"
#include "support/worst_errors.hpp"

using namespace rapt::test;

namespace {

template <class T>
constexpr double unit = unit_of<T>;

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

// Compares errors with bounds, which are multiples of unit<T>.
template <class T>
void check_errors(const oracle::RowErrors &errors, WorstErrors &worst, double row = softmax_bound<T>,
                  double log = log_bound<T>, double logsumexp = log_bound<T>) {
  worst.see("softmax", errors.softmax / unit<T>, row);
  worst.see("log_softmax", errors.log_softmax / unit<T>, log);
  worst.see("logsumexp", errors.logsumexp / unit<T>, logsumexp);
}

// Checks what rapt.h promises for a row without softcap and bias.
template <class T>
void check_promises(const RowProblem<T> &problem, WorstErrors &worst) {
  const oracle::RowErrors errors = errors_of(problem);
  check_errors<T>(errors, worst);
  CHECK(errors.flushed_wrongly == 0);
}

// Calls body(n) for each length. An emulator runs only the short ones.
template <class Body>
void for_each_length(Sizes lengths, std::size_t longest_emulated, Body &&body) {
  for (const std::size_t n : lengths) {
    CAPTURE(n);
    if (!emulated() || n <= longest_emulated) body(n);
  }
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
    const auto n = static_cast<double>(random.below(2000)) - 1000;  // where round(x / ln 2) changes
    const double x = (n + 0.5) * 0.6931471805599453 * (1 + (random.uniform() - 0.5) * 1e-13);
    if (x > -745.13 && x < 709.78) check(x);
  }
  std::printf("exp_f64 worst error %.5f ULP at %a\n", worst, worst_input);
  CHECK(worst < 1);
}

TEST_CASE_TEMPLATE("dot", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  for_each_length({1, 2, 7, 64, 65, 100, 1000, 4096, 65536, 1 << 20}, 5000, [&](std::size_t n) {
    for (const double mean : {0.0, 1.0}) {
      const std::vector<T> a = normal_row<T>(n, 1, mean, n), b = normal_row<T>(n, 1, mean, n + 1);
      const double error = oracle::dot_error<T>(a, b, Api<T>::dot(a.data(), b.data(), n));
      worst.see("dot", error, usual_dot_bound<T> * unit<T>);
    }
  });
  worst.print<T>("dot, of the sum of magnitudes");
}

TEST_CASE_TEMPLATE("exp_sum", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  for_each_length({1, 2, 7, 64, 65, 100, 1000, 2048, 2049, 50257, 1 << 20}, 5000, [&](std::size_t n) {
    for (const double shift : {0.0, 30.0, -60.0}) {
      const std::vector<T> x = normal_row<T>(n, 3, 0, n), ones(n, T(1));
      std::vector<T> y(n);
      const T sum = Api<T>::exp_sum(x.data(), T(0.7), static_cast<T>(shift), y.data(), n);
      worst.see("exp_sum", oracle::dot_error<T>(y, ones, sum) / unit<T>, exp_sum_bound<T>);
    }
  });
  worst.print<T>("exp_sum, relative");
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
    CAPTURE(std::string(logits.name));
    WorstErrors worst;
    const auto check = [&](std::size_t n) {
      for (const double scale : {1.0, 0.08838834764831845}) {
        if (n > 3000 && scale != 1) continue;
        CAPTURE(scale);
        check_promises<T>({.x = normal_row<T>(n, logits.sigma, logits.offset, 7 + n), .scale = scale}, worst);
      }
    };
    for_each_length({1, 2, 3, 5, 8, 17, 31, 64, 100, 257, 1000, 2049, 4096, 10000, 50257}, 300, check);
    worst.print<T>(logits.name);
  }
}

TEST_CASE_TEMPLATE("softmax of a million columns", T, float, double) {
  if (emulated()) return;
  const ScalarLevel scalar;
  WorstErrors worst;
  check_promises<T>({.x = normal_row<T>(1000000, 2, 0, 99)}, worst);
  worst.print<T>("a million columns");
}

TEST_CASE_TEMPLATE("softmax of logits and scales of any magnitude", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
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
        // If a score is outside the range of T, the log-sum-exp is outside too.
        double largest = 0;
        for (const T value : x) {
          if (std::isfinite(value)) largest = std::max(largest, std::fabs(double{value}));
        }
        const bool fits = largest * std::fabs(scale) < double{std::numeric_limits<T>::max()} / 4;
        // With a scale outside this range, every score is rounded by up to half a unit in its last place.
        const bool exact = std::fabs(scale) >= 0x1p-16 && std::fabs(scale) <= 0x1p16;
        if (!exact && !fits) continue;  // a score may be infinite
        const RowProblem<T> problem{.x = x, .scale = scale};
        if (exact && fits) {
          check_promises(problem, worst);
        } else {
          const oracle::RowErrors errors = errors_of(problem);
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
    check_promises(problem, worst);
  }
  worst.print<T>("any magnitude");
}

TEST_CASE_TEMPLATE("masked elements and sinks", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  for_each_length({2, 20, 150, 3000}, 300, [&](std::size_t n) {
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
          CAPTURE(sink);
          CAPTURE(offset);
          CAPTURE(scale);
          check_promises(problem, worst);
        }
      }
    }
  });
  worst.print<T>("masks and sinks");
}

// The quotient of a sink and the scale is rounded, so that its product with the scale may be above the sink.
TEST_CASE_TEMPLATE("sinks next to which all scores nearly vanish", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  const T below = std::is_same_v<T, float> ? T(15.5) : T(35.5);
  for (std::size_t i = 0; i < 2000; ++i) {
    const T sink = static_cast<T>(100 + 0.37 * static_cast<double>(i));
    RowProblem<T> problem{.x = {}, .scale = 0.3 + 1e-5 * static_cast<double>(i), .sink = &sink};
    for (const T more : {T(0), T(1), T(30)}) {
      problem.x.push_back(static_cast<T>(double{sink - below - more} / problem.scale));
    }
    check_promises(problem, worst);
  }
  worst.print<T>("sinks above");
}

// Returns terms whose partial sums are all rounded in the same direction, so their errors add up. Kinds are
// equal terms, a large term before many just above half a unit of it, few distinct terms, and 4-bit numbers
// times a scale.
template <class T>
std::vector<T> terms_made_to_lose(std::size_t kind, std::size_t n) {
  Random random(n + kind);
  std::vector<T> a(n, static_cast<T>(1.1230990886688232L + 1e-3L * static_cast<long double>(kind)));
  if (kind == 1) std::fill(a.begin() + 1, a.end(), static_cast<T>(1.375 * unit<T> / 2)), a[0] = 1;
  for (T &term : a) {
    if (kind == 2) term = random.one_in(2) ? T(0.7) : T(0.1);
    if (kind == 3) term = static_cast<T>(0.0371) * static_cast<T>(random.below(16));
  }
  return a;
}

TEST_CASE_TEMPLATE("the bound of any dot product", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  const std::size_t stretch = 131072 / sizeof(T);
  for_each_length({300, 2049, stretch, stretch + 1, 50257, 200000, 1 << 20}, 300, [&](std::size_t n) {
    for (std::size_t kind = 0; kind < 8; ++kind) {
      CAPTURE(kind);
      const std::vector<T> a = terms_made_to_lose<T>(kind, n), ones(n, T(1));
      const double error = oracle::dot_error<T>(a, ones, Api<T>::dot(a.data(), ones.data(), n));
      worst.see("dot", error / unit<T>, dot_bound<T>(n));
      // In softmax_backward, the sum of y * dy is the same dot product. Each other operation rounds once.
      if (n > 100000 || kind > 3) continue;
      std::vector<T> y(n, static_cast<T>(1 / static_cast<long double>(n))), dx(n);
      REQUIRE(Api<T>::softmax_backward(y.data(), 0, a.data(), 0, dx.data(), 0, 1, n, T(0.7)) == RAPT_OK);
      const double off = oracle::softmax_backward_error<T>(y, a, double{T(0.7)}, dx);
      worst.see("dx", off / unit<T>, softmax_backward_worst_bound<T>(n));
    }
  });
  worst.print<T>("terms made to lose");
}

// All products are subnormal or 0.
TEST_CASE_TEMPLATE("what underflow takes from a dot product", T, float, double) {
  const ScalarLevel scalar;
  using Wide = long double;
  WorstErrors worst;
  const int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  for (const int exponent : {least - 3, least, least + 5, least + 20}) {
    for (const std::size_t n : Sizes{1, 3, 64, 300, 5000}) {
      Random random(n);
      std::vector<T> a(n), b(n), dx(n);
      for (T &x : a) x = static_cast<T>(std::ldexp(1 + random.uniform(), exponent / 2));
      for (T &x : b) x = static_cast<T>(std::ldexp(1 + random.uniform(), exponent - exponent / 2));
      Wide sum = 0;
      for (std::size_t i = 0; i < n; ++i) sum += Wide{a[i]} * Wide{b[i]};
      const auto count = static_cast<Wide>(n);
      const auto see = [&](const char *what, Wide got, Wide exact, Wide bound) {
        worst.see(what, static_cast<double>(std::fabs(got - exact) / Wide{smallest<T>}),
                  static_cast<double>(bound / Wide{smallest<T>}));
      };
      see("dot", Api<T>::dot(a.data(), b.data(), n), sum,
          Wide{dot_bound<T>(n) * unit<T>} * sum + count * Wide{smallest<T>});
      const T scale = T(0.3);
      REQUIRE(Api<T>::softmax_backward(a.data(), 0, b.data(), 0, dx.data(), 0, 1, n, scale) == RAPT_OK);
      for (std::size_t i = 0; i < n; ++i) {
        const Wide y = a[i], size = Wide{scale} * y * (Wide{b[i]} + sum);
        see("dx", dx[i], Wide{scale} * y * (Wide{b[i]} - sum),
            Wide{softmax_backward_worst_bound<T>(n) * unit<T>} * size +
                Wide{softmax_backward_underflow<T>(n, double{scale}, double{a[i]})});
      }
    }
  }
  worst.print<T>("products that underflow, in smallest numbers");
}

TEST_CASE_TEMPLATE("softcap and bias round each score once or twice", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  for_each_length({1, 2, 20, 150, 1000}, 300, [&](std::size_t n) {
    for (const float softcap : {0.0f, 5.0f, 50.0f}) {
      for (const bool with_bias : {false, true}) {
        for (const double scale : {1.0, 0.3}) {
          RowProblem<T> problem{.x = normal_row<T>(n, 20, 0, n), .scale = scale, .softcap = softcap};
          Random random(n + 1);
          for (std::size_t i = 0; with_bias && i < n; ++i)
            problem.bias.push_back(static_cast<float>(3 * random.gaussian()));
          double largest = 0;
          for (const T x : problem.x) largest = std::max(largest, std::fabs(double{x} * scale));
          if (softcap != 0) largest = std::min(largest, double{softcap});
          // An absolute error of a score becomes a relative error of the probability.
          const double of_softcap = sizeof(T) == 4 ? 5 : 7;
          const double rounding = softcap != 0 ? (of_softcap + 1) * largest + (with_bias ? 12 : 0)
                                  : with_bias  ? 2 * largest + 12
                                               : 0;
          CAPTURE(softcap);
          CAPTURE(with_bias);
          CAPTURE(scale);
          check_errors<T>(errors_of(problem), worst, softmax_bound<T> + 2 * rounding,
                          log_bound<T> + 2 * rounding, log_bound<T> + rounding);
        }
      }
    }
  });
  worst.print<T>("softcap and bias");
}

TEST_CASE_TEMPLATE("softmax_backward", T, float, double) {
  const ScalarLevel scalar;
  WorstErrors worst;
  for_each_length({1, 2, 3, 17, 64, 100, 1000, 4097, 50257}, 300, [&](std::size_t n) {
    for (const double sigma : {2.0, 40.0}) {
      for (const T scale : {T(1), static_cast<T>(0.08838834764831845), T(-3)}) {
        const std::vector<T> x = normal_row<T>(n, sigma, 0, n),
                             dy = normal_row<T>(n, 1, sigma == 2 ? 0 : 5, n + 9);
        std::vector<T> y(n), dx(n);
        REQUIRE(Api<T>::softmax(x.data(), 0, y.data(), 0, 1, n, nullptr) == RAPT_OK);
        // Sets small probabilities to 0, so that the comparison is free of underflow.
        for (T &p : y) p = p < std::numeric_limits<T>::min() / unit<T> * T(64) ? T(0) : p;
        REQUIRE(Api<T>::softmax_backward(y.data(), 0, dy.data(), 0, dx.data(), 0, 1, n, scale) == RAPT_OK);
        CAPTURE(sigma);
        const double error = oracle::softmax_backward_error<T>(y, dy, double{scale}, dx);
        worst.see("dx", error, softmax_backward_bound<T> * unit<T>);
      }
    }
  });
  worst.print<T>("softmax_backward, of its magnitude");
}

// Turning (1, 0) by every position gives its cosine and sine.
TEST_CASE_TEMPLATE("rope: sines and cosines", T, float, double) {
  WorstErrors worst;
  Random random(24);
  constexpr double half_pi = 0x1.921fb54442d18p0;
  constexpr std::size_t pairs = 32;
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(2000, 20); ++i) {
    const std::size_t kind = i % 5;
    const auto position =
        static_cast<std::int64_t>(kind == 4 ? 1 : 1 + random.below(kind == 0 ? 1000 : 1u << 24));
    std::vector<double> frequencies(pairs);
    for (double &f : frequencies) {
      f = std::ldexp(1 + random.uniform(), -static_cast<int>(random.below(20)));
      if (kind == 3) f *= 512;
      // The angle is near a multiple of a quarter turn, where the sine or cosine is tiny, or of an eighth.
      const double steps = static_cast<double>(1 + random.below(1u << 22));
      if (kind == 2) f = steps * half_pi / (random.one_in(2) ? 1 : 2) / static_cast<double>(position);
      // The sine is as far as possible from the numbers of f32: just above a power of two, between two of them.
      if (kind == 4) {
        const double between = (1 + 0x1p-24) + (random.uniform() - 0.5) * 0x1p-40;
        f = std::asin(std::ldexp(between, -1 - static_cast<int>(random.below(12))));
      }
      if (f > 1024) f = 1024;
    }
    std::vector<T> turned(2 * pairs);
    std::fill(turned.begin(), turned.begin() + pairs, T(1));
    rapt_rope_options o = RAPT_ROPE_OPTIONS_INIT;
    o.type = Api<T>::type;
    o.batch = o.heads = o.tokens = 1;
    o.head_dim = 2 * pairs;
    o.frequencies = frequencies.data();
    o.first_position = random.one_in(2) ? position : -position;
    REQUIRE(rapt_rope(turned.data(), turned.data(), &o) == RAPT_OK);
    for (std::size_t p = 0; p < pairs; ++p) {
      // The proof in contract/rope.hpp ends below the bound of rapt.h.
      const double units = (std::is_same_v<T, double> ? sine_bound<T> : 1.0012) * unit<T>;
      const double least = std::is_same_v<T, double> ? 0x1p-1074 : 0x1p-150;
      const auto errors = oracle::turn_errors(static_cast<double>(o.first_position), frequencies[p],
                                              double{turned[pairs + p]}, double{turned[p]}, units, least);
      worst.see("sine", errors.sine, 1);
      worst.see("cosine", errors.cosine, 1);
    }
  }
  worst.print<T>("rope, of what is proved");
}

TEST_CASE("rope_frequencies") {
  WorstErrors worst;
  for (const double base :
       {0x1.0000000000001p0, 1.0001, 1.5, 3.0, 10000.0, 500000.0, 1e6, 1.5e5, 1e9, 1e100, 0x1p512}) {
    for (const std::size_t dim : Sizes{2, 6, 24, 64, 96, 128, 256, 1000}) {
      rapt_rope_frequency_options o = RAPT_ROPE_FREQUENCY_OPTIONS_INIT;
      o.rotary_dim = dim;
      o.base = base;
      std::vector<double> frequencies(dim / 2);
      REQUIRE(rapt_rope_frequencies(frequencies.data(), nullptr, &o) == RAPT_OK);
      CHECK(frequencies[0] == 1);
      for (std::size_t i = 0; i < frequencies.size(); ++i) {
        worst.see("ULP", oracle::frequency_error_in_ulps(base, i, dim, frequencies[i]), 1);
      }
    }
  }
  worst.print<double>("rope_frequencies");
}
