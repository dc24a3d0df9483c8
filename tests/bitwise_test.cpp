// Every kernel on every usable level against the scalar level, bit for bit, over lengths, alignments,
// strides, options and special values; with guard pages around every buffer and canaries between rows.
// attention_test has attention, but for rows alone.
#include <numeric>

#include "contract/fused.hpp"  // std::fma errs on Windows
#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/options.hpp"
#include "support/public_api.hpp"

using namespace rapt::test;

namespace {

using Problems = std::vector<Problem>;

bool any_kernel(const KernelTraits &traits) { return !traits.is_attention(); }

// Flush with a guard page on either side, in place and not; then random layouts.
LayoutsOf flush_and_random_layouts(std::size_t random_count) {
  return [random_count](const Problem &problem) {
    std::vector<Layout> layouts(4);
    layouts[1].placement = Placement::begins_at_guard;
    layouts[2].alias = Alias::first_input;
    layouts[3].alias = Alias::second_input;
    layouts[3].placement = Placement::begins_at_guard;
    Random random(problem.seed * 31 + problem.cols());
    // Multiples of 8 suit both element sizes.
    for (std::size_t i = 0; i < random_count; ++i) layouts.push_back(draw_layout(random, 8));
    return layouts;
  };
}

double random_scale(Random &random) {
  return random.one_of({1.0, 1.0, 0.125, 0.3, -0.7, 0.08838834764831845, 1.7, 0.0});
}

}  // namespace

TEST_CASE("lengths") {
  compare_kernels(
      "lengths", any_kernel,
      [](const KernelCase &kernel) {
        Problems problems;
        for (const std::size_t n : test_lengths()) {
          Numbers numbers{.rows = 2, .cols = n, .seed = 1000 + n};
          Random random(numbers.seed);
          numbers.scale = random_scale(random);
          numbers.shift = 2 * random.gaussian();
          problems.push_back(make_problem(kernel.traits.family, numbers));
        }
        return problems;
      },
      flush_and_random_layouts(native_or_emulated<std::size_t>(4, 0)));
}

TEST_CASE("values") {
  compare_kernels(
      "values", any_kernel,
      [](const KernelCase &kernel) {
        Problems problems;
        for (const InputClass input : all_input_classes) {
          for (const std::size_t n :
               Sizes{1, 2, 5, 8, 13, 16, 31, 32, 33, 47, 64, 67, 100, 129, 257, 1000, 2100, 4500}) {
            if (emulated() && n > 150 && n != 2100) continue;
            for (std::size_t repeat = 0; repeat < native_or_emulated<std::size_t>(3, 2); ++repeat) {
              Numbers numbers{.rows = n < 300 ? 3u : 1u, .cols = n, .input = input};
              numbers.seed = 77000 + 100 * n + repeat;
              Random random(numbers.seed);
              numbers.scale = random_scale(random);
              numbers.shift = repeat % 3 == 0 ? 0 : 10 * random.gaussian();
              problems.push_back(make_problem(kernel.traits.family, numbers));
            }
          }
        }
        return problems;
      },
      flush_and_random_layouts(1));
}

TEST_CASE("extreme scales and shifts") {
  compare_kernels(
      "extreme scales and shifts", any_kernel,
      [](const KernelCase &kernel) {
        Problems problems;
        const double infinity = std::numeric_limits<double>::infinity();
        for (const double scale : {1e-30, 1e30, -1e30, 0x1p-126, 0x1.6p127, 0.0, -0.0, 0.125, 0.3, -1.0}) {
          for (const double shift :
               {0.0, 1e30, -1e30, 87.5, -88.7, 103.9, 700.0, -709.5, infinity, -infinity}) {
            if (kernel.traits.has_rows() && shift != 0) continue;
            for (const InputClass input : all_input_classes) {
              for (const std::size_t n : Sizes{1, 17, 64, 131}) {
                if (emulated() && (n == 1 || n == 64)) continue;
                problems.push_back(make_problem(
                    kernel.traits.family, {2, n, input, n + static_cast<std::size_t>(input), scale, shift}));
              }
            }
          }
        }
        return problems;
      },
      [](const Problem &) { return std::vector<Layout>(1); });
}

TEST_CASE("byte offsets") {
  // Every pair of offsets of two buffers within 64 bytes; the third buffer's offset follows from them.
  for (const std::size_t size : Sizes{sizeof(float), sizeof(double)}) {
    std::vector<Layout> layouts;
    const std::size_t step = native_or_emulated<std::size_t>(size, 20 / size * size);
    for (std::size_t first = 0; first < 64; first += step) {
      for (std::size_t last = 0; last < 64; last += step) {
        Layout layout;
        layout.offset = {first, (3 * first + last + size) % 64 / size * size, last};
        layouts.push_back(layout);
        layout.placement = Placement::begins_at_guard;
        layout.offset[1] = last;
        layouts.push_back(layout);
      }
    }
    compare_kernels(
        size == 4 ? "byte offsets, f32" : "byte offsets, f64",
        [size](const KernelTraits &traits) { return traits.element_size == size && any_kernel(traits); },
        [](const KernelCase &kernel) {
          Problems problems;
          for (const std::size_t n : Sizes{5, 33, 77, 200, 333}) {
            if (emulated() && n != 5 && n != 77) continue;
            problems.push_back(
                make_problem(kernel.traits.family, {.rows = 2, .cols = n, .seed = 500 + n, .scale = 0.3}));
          }
          return problems;
        },
        [&layouts](const Problem &) { return layouts; });
  }
}

TEST_CASE("row strides") {
  std::vector<Layout> layouts;
  for (const std::ptrdiff_t in : {0, 1, 13}) {
    for (const std::ptrdiff_t out : {0, 1, 13}) {
      for (const Alias alias : {Alias::none, Alias::first_input, Alias::second_input}) {
        for (const bool reversed : {false, true}) {
          Layout layout;
          layout.gap = {in, alias == Alias::none ? 13 - in : in, out};
          layout.alias = alias;
          layout.reversed = reversed;
          layouts.push_back(layout);
        }
      }
    }
  }
  compare_kernels(
      "row strides", [](const KernelTraits &traits) { return traits.has_rows() && any_kernel(traits); },
      [](const KernelCase &kernel) {
        Problems problems;
        for (const std::size_t rows : Sizes{0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 19}) {
          for (const std::size_t n : Sizes{0, 1, 3, 8, 16, 17, 32, 48, 63, 64, 65, 80, 128, 150}) {
            if (emulated() && (rows > 5 || rows == 1 || (n != 17 && n != 64 && n != 3))) continue;
            const std::uint64_t seed = 900 + 20 * n + rows;
            Problem problem =
                make_problem(kernel.traits.family, {.rows = rows, .cols = n, .seed = seed, .scale = 0.125});
            problems.push_back(problem);
            auto *const dot_rows = std::get_if<DotRowsProblem>(&problem.of);
            if (!dot_rows) continue;
            dot_rows->same_row = true;
            problems.push_back(problem);
          }
        }
        return problems;
      },
      [&layouts](const Problem &) { return layouts; });
}

namespace {

// Each option alone, and then many combinations.
std::vector<SoftmaxOptions> option_choices() {
  std::vector<SoftmaxOptions> choices = each_softmax_option_alone();
  Random random(20240607);
  const std::size_t combinations = native_or_emulated<std::size_t>(30, 16);
  for (std::size_t i = 0; i < combinations; ++i) draw(random, choices.emplace_back());
  return choices;
}

Problems option_problems(const std::vector<std::size_t> &lengths, std::size_t rows) {
  Problems problems;
  std::size_t count = 0;
  for (const SoftmaxOptions &options : option_choices()) {
    for (const std::size_t n : lengths) {
      for (const InputClass input : {InputClass::gaussian, InputClass::gaussian_wide,
                                     InputClass::minus_infinities, InputClass::specials, InputClass::huge}) {
        count += 1;
        if (emulated() && count % 3 != 0) continue;
        constexpr double scales[] = {0.125, 0.3, 1, -0.3, 0, 1e-30, 1e30};
        const double scale = options.null ? 1 : scales[count % std::size(scales)];
        problems.push_back({input, 4200 + count, SoftmaxProblem{{rows, n, scale}, options}});
      }
    }
  }
  return problems;
}

}  // namespace

TEST_CASE("softmax options") {
  const std::vector<std::size_t> lengths = native_or_emulated<std::vector<std::size_t>>(
      {0, 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 65, 100, 130, 300}, {1, 17, 67});
  compare_kernels(
      "softmax options", [](const KernelTraits &traits) { return traits.takes_options(); },
      [&](const KernelCase &) { return option_problems(lengths, 5); },
      [](const Problem &problem) {
        std::vector<Layout> layouts(1);
        Random random(problem.seed);
        layouts.push_back(draw_layout(random, 8));
        return layouts;
      });
}

// Softmax computes short rows in groups of up to 16, or two groups at once, and longer rows one by one.
TEST_CASE("softmax options, batches") {
  compare_kernels(
      "softmax options, batches", [](const KernelTraits &traits) { return traits.takes_options(); },
      [&](const KernelCase &) {
        Problems problems;
        std::size_t count = 0;
        for (const std::size_t rows : Sizes{4, 9, 16, 35}) {
          for (const std::size_t n : Sizes{1, 3, 4, 5, 8, 9, 16, 17, 40, 65, 256, 257}) {
            if (emulated() && (rows == 16 || rows == 35 || n > 17)) continue;
            for (Problem problem : option_problems({n}, rows)) {
              // Some of the combinations, with odd rows in place of huge inputs.
              if (count++ % native_or_emulated<std::size_t>(rows * n > 600 ? 11 : 5, 5) != 0) continue;
              if (problem.input == InputClass::huge) problem.input = InputClass::odd_rows;
              problem.seed += 100000 * rows + 1000 * n;
              problems.push_back(problem);
            }
          }
        }
        return problems;
      },
      [](const Problem &problem) {
        Random random(problem.seed);
        return std::vector<Layout>(1, draw_layout(random, 8));
      });
}

TEST_CASE("softmax options, long rows") {
  if (emulated()) return;
  compare_kernels(
      "softmax options, long rows", [](const KernelTraits &traits) { return traits.takes_options(); },
      [&](const KernelCase &) {
        Problems problems = option_problems({2047, 2049, 4127}, 2);
        std::size_t index = 0;
        std::erase_if(problems, [&](const Problem &) { return index++ % 5 != 0; });
        return problems;
      },
      [](const Problem &) { return std::vector<Layout>(1); });
}

TEST_CASE("a row alone has the bits that it has in a batch") {
  std::size_t calls = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    // Gradients of keys are sums over rows.
    if (!kernel.traits.has_rows() || kernel.traits.is_attention_backward()) continue;
    Problems problems;
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
      for (Problem &problem : option_problems({native_or_emulated<std::size_t>(37, 19)}, 6)) {
        problems.push_back(problem);
      }
    }
    const Comparison comparison = compare_rows_alone(kernel, problems);
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    calls += comparison.calls;
  }
  CHECK(calls > 0);
  std::printf("%-28s %9zu rows compared with their batch\n", "rows alone", calls);
}

// The functions that rapt.h defines by another function.
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
