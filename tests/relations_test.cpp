// Tests pairs of results that rapt.h promises to be equal: a row alone and in a batch, dot_rows and dot,
// exp_sum and exp, scale and a product, softmax with a scale and softmax of scaled elements.
#include <numeric>

#include "contract/fused.hpp"  // std::fma is wrong on Windows
#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/options.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

// Returns problems with each option on its own, and then many combinations.
std::vector<Problem> option_problems(std::size_t rows, std::size_t cols) {
  std::vector<SoftmaxOptions> choices = each_softmax_option_alone();
  Random random(20240607);
  for (std::size_t i = 0; i < native_or_emulated<std::size_t>(30, 16); ++i)
    draw(random, choices.emplace_back());
  std::vector<Problem> problems;
  for (const SoftmaxOptions &options : choices) {
    for (const InputClass input :
         {InputClass::gaussian, InputClass::minus_infinities, InputClass::specials}) {
      const std::size_t count = problems.size();
      if (emulated() && count % 3 != 0) continue;
      constexpr double scales[] = {0.125, 0.3, 1, -0.3, 0, 1e-30, 1e30};
      const double scale = options.null ? 1 : scales[count % std::size(scales)];
      problems.push_back({input, 4200 + count, SoftmaxProblem{{rows, cols, scale}, options}});
    }
  }
  return problems;
}

}  // namespace

TEST_CASE("a row alone has the bits that it has in a batch") {
  std::size_t calls = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    // Gradients of keys are sums over rows, so one row cannot be compared with a batch.
    // Reductions have no rows that a window chooses: which dimensions they reduce comes from the seed.
    const bool is_of_rows = kernel.traits.has_rows() && kernel.traits.family != Family::reduce &&
                            kernel.traits.family != Family::convolution &&
                            kernel.traits.family != Family::delta_rule;
    if (!is_of_rows || kernel.traits.is_attention_backward()) continue;
    std::vector<Problem> problems;
    for (const std::size_t rows : Sizes{1, 2, 3, 4, 5, 8, 17}) {
      for (const std::size_t n : Sizes{1, 9, 16, 33, 64, 100, 257, 2200}) {
        if (emulated() && (rows % 4 != 1 || rows == 17 || (n != 9 && n != 64 && n != 257))) continue;
        const InputClass input = n % 2 ? InputClass::specials : InputClass::gaussian;
        problems.push_back(make_problem(kernel.traits.family, {rows, n, input, 60 + 10 * n + rows, 0.3}));
      }
    }
    for (const std::size_t n : Sizes{2, 8, 16, 40}) {
      const std::size_t rows = native_or_emulated<std::size_t>(50, 18);
      problems.push_back(make_problem(kernel.traits.family, {rows, n, InputClass::odd_rows, 7000 + n, 0.3}));
    }
    if (kernel.traits.takes_options()) {
      const std::vector<Problem> more = option_problems(6, native_or_emulated<std::size_t>(37, 19));
      problems.insert(problems.end(), more.begin(), more.end());
    }
    const Comparison comparison = compare_rows_alone(kernel, problems);
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    calls += comparison.calls;
  }
  CHECK(calls > 0);
  std::printf("%-28s %9zu rows compared with their batch\n", "rows alone", calls);
}

TEST_CASE_TEMPLATE("functions in terms of each other", T, float, double) {
  for_each_usable_isa("_f32 _f64", [](const std::string &isa) {
    CAPTURE(isa);
    std::size_t wrong_dot_rows = 0, wrong_exp_sum = 0, wrong_scale = 0;
    for (const InputClass input : all_input_classes) {
      CAPTURE(std::string(name_of(input)));
      for (const std::size_t n : Sizes{1, 15, 64, 301}) {
        Random random(n);
        std::vector<T> x(n), rows(5 * n), y(n), t(n), exp_t(n);
        fill<T>(input, random, x);
        fill<T>(input, random, rows);
        const T scale = static_cast<T>(0.3), shift = static_cast<T>(1.25);

        std::vector<T> out(5);
        Api<T>::dot_rows(x.data(), rows.data(), static_cast<std::ptrdiff_t>(n), 5, n, scale, out.data());
        for (std::size_t r = 0; r < 5; ++r) {
          const T expected = scale * Api<T>::dot(x.data(), rows.data() + r * n, n);
          wrong_dot_rows += !same_bits(out[r], expected);
        }

        const T sum = Api<T>::exp_sum(x.data(), scale, shift, y.data(), n);
        for (std::size_t i = 0; i < n; ++i) t[i] = fused(scale, x[i], -shift);
        Api<T>::exp(t.data(), exp_t.data(), n);
        for (std::size_t i = 0; i < n; ++i) wrong_exp_sum += !same_bits(y[i], exp_t[i]);
        const double exact = std::accumulate(y.begin(), y.end(), 0.0);
        if (std::isfinite(exact) && exact < double{std::numeric_limits<T>::max()} / 2) {
          CHECK(std::fabs(double{sum} - exact) <= (sizeof(T) == 4 ? 1e-6 : 1e-14) * exact);
        }

        Api<T>::scale(x.data(), scale, y.data(), n);
        for (std::size_t i = 0; i < n; ++i) wrong_scale += !same_bits(y[i], x[i] * scale);
      }
    }
    CHECK(wrong_dot_rows == 0);
    CHECK(wrong_exp_sum == 0);
    CHECK(wrong_scale == 0);
  });
}

TEST_CASE_TEMPLATE("a scale that is a power of two can be applied before", T, float, double) {
  for_each_usable_isa("_f32 _f64", [](const std::string &isa) {
    CAPTURE(isa);
    for (const std::size_t n : Sizes{3, 64, 500}) {
      Random random(n);
      std::vector<T> x(n), scaled(n), y(n), expected(n);
      fill<T>(InputClass::gaussian_wide, random, x);
      for (std::size_t i = 0; i < n; ++i) scaled[i] = x[i] / 8;
      rapt_softmax_options options = RAPT_SOFTMAX_OPTIONS_INIT;
      options.scale = 0.125f;
      const auto stride = static_cast<std::ptrdiff_t>(n);
      for (const auto function : {Api<T>::softmax, Api<T>::log_softmax}) {
        REQUIRE(function(x.data(), stride, y.data(), stride, 1, n, &options) == RAPT_OK);
        REQUIRE(function(scaled.data(), stride, expected.data(), stride, 1, n, nullptr) == RAPT_OK);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) wrong += !same_bits(y[i], expected[i]);
        CHECK(wrong == 0);
      }
    }
  });
}
