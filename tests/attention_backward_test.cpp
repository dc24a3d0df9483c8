// Attention's gradient on every usable level against the scalar one, bit for bit, and every way to lay out
// its memory and to cut its work against the plain one: offsets, slices of one buffer, tasks, sequences
// alone, foreign floating-point states. Guard pages lie around every buffer, the workspace included.
#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

#include "support/attention_problems.hpp"
#include "support/bits.hpp"
#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"

using namespace rapt::test;

namespace {

std::vector<Problem> random_problems(std::size_t count, std::uint64_t seed, std::size_t most_work) {
  Random random(seed);
  AttentionMaker maker(random, most_work);
  std::vector<Problem> problems;
  while (problems.size() < count) problems.push_back(maker.problem());
  return problems;
}

// The plain layout, and others that the problem's seed draws.
LayoutsOf plain_and_random_layouts(std::size_t count) {
  return [=](const Problem &problem) {
    std::vector<Layout> layouts(1);
    Random random(problem.seed * 17 + problem.cols);
    AttentionMaker maker(random, 0);
    while (layouts.size() <= count) layouts.push_back(maker.layout(sizeof(float)));
    return layouts;
  };
}

void compare_gradients(const char *what, const std::vector<Problem> &problems, const LayoutsOf &layouts) {
  std::size_t calls = 0, elements = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!kernel.traits.is_attention_backward) continue;
    const Comparison comparison = compare_levels(kernel, problems, layouts);
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    CHECK(comparison.calls > 0);
    calls += comparison.calls;
    elements += comparison.elements;
  }
  std::printf("%-28s %9zu calls, %11zu results compared with the scalar level's\n", what, calls, elements);
}

}  // namespace

TEST_CASE("random shapes and options") {
  compare_gradients("shapes and options",
                    random_problems(native_or_emulated<std::size_t>(250, 40), 20260202,
                                    native_or_emulated<std::size_t>(250000, 30000)),
                    plain_and_random_layouts(native_or_emulated<std::size_t>(3, 1)));
}

// Whatever a vector, a tile or a block leaves over, each operand ending or beginning at a page that cannot be
// touched.
TEST_CASE("every dimension, flush at guard pages") {
  std::vector<Layout> layouts;
  for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
    for (int kind = 0; kind < 4; ++kind) {
      Layout layout;
      layout.placement = placement;
      if (kind == 1) layout.attention.fused = true;
      if (kind == 2) layout.attention.tokens_outside = true;
      if (kind == 3) layout.attention.q_offsets = layout.attention.kv_offsets = true;
      layouts.push_back(layout);
    }
  }
  std::vector<Problem> problems;
  for (std::size_t dim = 1; dim <= 80; dim += native_or_emulated<std::size_t>(1, 9)) {
    for (const std::size_t rows : {dim % 9 + 1, dim % 5 * 16 + dim % 3 + 1}) {
      Problem problem;
      problem.rows = rows;
      problem.cols = dim * 29 % 141;
      problem.seed = 100 * dim + rows;
      problem.scale = 0;
      problem.attention.qk_dim = dim;
      problem.attention.v_dim = dim % 3 == 0 ? dim : 81 - dim;
      problem.options.mask = dim % 4 == 1 ? PerRow::each : PerRow::none;
      problem.options.bias = dim % 4 == 2 ? PerRow::each : PerRow::none;
      problem.options.causal = dim % 4 == 3;
      problem.attention.bottom_right = true;
      problems.push_back(problem);
    }
  }
  compare_gradients("dimensions at guard pages", problems, [&](const Problem &problem) {
    // Half of them, by turns.
    std::vector<Layout> some;
    for (std::size_t l = problem.seed % 2; l < layouts.size(); l += 2) some.push_back(layouts[l]);
    return some;
  });
}

// Every number of keys that a block leaves over, and around more blocks; with heads that share their keys.
TEST_CASE("every number of keys and queries") {
  std::vector<Problem> problems;
  for (std::size_t n = 1; n <= 140; n += native_or_emulated<std::size_t>(1, 11)) {
    Problem problem;
    problem.cols = n;
    problem.rows = n * 37 % 131 + 1;
    problem.seed = n;
    problem.scale = 0;
    problem.attention.group = n % 9 + 1;
    if (n % 9 > 3) problem.rows = n % 17 + 1;
    problem.attention.qk_dim = n % 3 * 8 + 1;
    problem.attention.v_dim = n % 5 + 3;
    problem.options.causal = n % 2 == 0;
    problem.attention.bottom_right = n % 4 == 0;
    problem.options.causal_offset = static_cast<std::ptrdiff_t>(n % 7) - 3;
    if (n % 6 == 5) problem.attention.window_left = static_cast<std::ptrdiff_t>(n % 50);
    problems.push_back(problem);
  }
  compare_gradients("keys and queries", problems, plain_and_random_layouts(1));
}

TEST_CASE("the dimensions of models") {
  std::vector<Problem> problems;
  std::size_t count = 0;
  for (const auto &[qk_dim, v_dim] : {std::pair<std::size_t, std::size_t>{64, 64},
                                      {80, 80},
                                      {128, 128},
                                      {192, 128},
                                      {256, 256},
                                      {576, 512}}) {
    for (const std::size_t rows : Sizes{1, 16, 70}) {
      for (const std::size_t keys : Sizes{64, 65, 200}) {
        count += 1;
        if (emulated() && count % 13 != 0) continue;
        Problem problem;
        problem.rows = rows;
        problem.cols = keys;
        problem.seed = count;
        problem.scale = 0;
        problem.attention.qk_dim = qk_dim;
        problem.attention.v_dim = v_dim;
        problem.options.causal = problem.attention.bottom_right = count % 2 == 0;
        problems.push_back(problem);
      }
    }
  }
  compare_gradients("dimensions of models", problems, plain_and_random_layouts(1));
}

TEST_CASE("foreign floating-point states") {
  std::vector<Layout> layouts;
  for (const FpState &state : foreign_fp_states()) {
    Layout layout;
    layout.fp_state = state;
    layouts.push_back(layout);
  }
  compare_gradients("foreign states", random_problems(native_or_emulated<std::size_t>(30, 4), 3, 60000),
                    [&](const Problem &) { return layouts; });
}

// A comparison is worth something only if what is compared is not all NaN or zeros.
TEST_CASE("many results are ordinary numbers") {
  std::size_t ordinary = 0, all = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (kernel.name != std::string_view("attention_backward_f32")) continue;
    for (const Problem &problem : random_problems(60, 20260202, 100000)) {
      for (const std::uint64_t bits : kernel.run(problem, Layout{}).bits) {
        const float value = from_bits<float>(static_cast<std::uint32_t>(bits));
        all += 1;
        ordinary += std::isfinite(value) && value != 0;
      }
    }
  }
  CHECK(ordinary * 3 > all);
}
