// Tests softmax of short rows, which are computed in groups. A group that contains an unusual row, for
// example with NaN, is computed row by row. The bits must be those of the scalar level, which has no groups.
// Tests every width up to 300 columns and up to 70 rows, some of them unusual. rapt-validate tests fewer
// sizes, but all options.
#include <doctest/doctest.h>

#include <vector>

#include "support/compare_kernels.hpp"
#include "support/effort.hpp"
#include "support/every_level.hpp"
#include "support/public_api.hpp"
#include "support/random.hpp"

using namespace rapt::test;

TEST_CASE("batches of 1 to 70 rows of 1 to 300 columns") {
  constexpr double scales[] = {1, 1, 0.125, 1, -0.7, 1, 0.3, 0, 1, 1e30};
  constexpr std::ptrdiff_t gaps[] = {0, 1, 0, 13, 5};
  std::vector<Problem> problems;
  for (std::size_t cols = 1; cols <= 300; ++cols) {
    if (emulated() && cols > 18 && cols % 64 > 1 && cols != 300) continue;
    // Short rows are tested more often, because unusual elements can be at more positions of a vector loop.
    for (std::size_t i = 0; i < native_or_emulated<std::size_t>(cols <= 70 ? 14 : 5, 2); ++i) {
      const std::size_t rows = 1 + (13 * cols + 23 * i) % 70;
      const InputClass input = i % 5 == 4 ? InputClass::gaussian : InputClass::odd_rows;
      Problem made = make_problem(Family::softmax, {rows, cols, input, 100 * cols + i});
      auto &softmax = std::get<SoftmaxProblem>(made.of);
      softmax.scale = scales[(cols + i) % std::size(scales)];
      softmax.options.row_lengths = i % 4 == 3;
      softmax.options.mask = i % 7 == 2 ? PerRow::each : PerRow::none;
      problems.push_back(made);
    }
  }
  compare_kernels(
      "batches of rows",
      [](const KernelTraits &traits) { return traits.takes_options() && traits.element_size > 2; },
      [&](const KernelCase &) { return problems; },
      [&](const Problem &problem) {
        std::vector<Layout> layouts(2);
        layouts[0].gap = {gaps[problem.seed % 5], 0, gaps[problem.seed / 2 % 5]};
        layouts[1].placement = Placement::begins_at_guard;
        layouts[1].alias = problem.seed % 2 == 0 ? Alias::first_input : Alias::none;
        return layouts;
      });
}

// Rows are as far apart as registers, so that those without a gap are loaded whole. Numbers in a gap are no elements.
TEST_CASE_TEMPLATE("numbers between short rows", T, float, double) {
  constexpr std::size_t rows = 70;
  constexpr T untouched = 7;
  Random random(1);
  for (const std::size_t pitch : {2, 4, 8, 16}) {
    std::vector<T> x(rows * pitch);
    for (T &element : x) element = static_cast<T>(random.gaussian());
    for (std::size_t cols = 1; cols <= pitch; ++cols) {
      const auto stride = static_cast<std::ptrdiff_t>(pitch);
      std::vector<T> expected;
      on_every_level([&] {
        std::vector<T> y(x.size(), untouched);
        CHECK(Api<T>::softmax(x.data(), stride, y.data(), stride, rows, cols, nullptr) == RAPT_OK);
        if (expected.empty()) expected = y;
        CHECK(y == expected);
        for (std::size_t i = 0; i < y.size(); ++i) REQUIRE((i % pitch < cols) == (y[i] != untouched));
      });
    }
  }
}
