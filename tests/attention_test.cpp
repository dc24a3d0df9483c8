// Attention on every usable level against the scalar one, bit for bit, and every way to lay out its memory
// and to cut its work against the plain one: pages, packed keys, offsets, repeated heads, tasks, split keys,
// sequences and queries alone, in place. Guard pages lie around every buffer, the workspace included.
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
    Random random(problem.seed * 31 + problem.cols);
    AttentionMaker maker(random, 0);
    while (layouts.size() <= count) layouts.push_back(maker.layout(sizeof(float)));
    return layouts;
  };
}

template <class ProblemsOf>
void compare_attention(const char *what, ProblemsOf &&problems_of, const LayoutsOf &layouts) {
  std::size_t calls = 0, elements = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!kernel.traits.is_attention || kernel.traits.is_attention_backward) continue;
    const bool whole = std::string_view(kernel.name).substr(0, 11) == "attention_f";
    const Comparison comparison = compare_levels(kernel, problems_of(whole), layouts);
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    CHECK(comparison.calls > 0);
    calls += comparison.calls;
    elements += comparison.elements;
  }
  std::printf("%-28s %9zu calls, %11zu results compared with the scalar level's\n", what, calls, elements);
}

}  // namespace

TEST_CASE("random shapes and options") {
  compare_attention(
      "shapes and options",
      [](bool whole) {
        return random_problems(native_or_emulated<std::size_t>(whole ? 400 : 80, whole ? 50 : 12),
                               whole ? 20260101 : 5, native_or_emulated<std::size_t>(1000000, 60000));
      },
      plain_and_random_layouts(native_or_emulated<std::size_t>(3, 1)));
}

// Whatever a vector, a tile or a block leaves over, each operand ending or beginning at a page that cannot be
// touched.
TEST_CASE("every dimension, flush at guard pages") {
  std::vector<Layout> layouts;
  for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
    for (int kind = 0; kind < 5; ++kind) {
      Layout layout;
      layout.placement = placement;
      if (kind == 1) layout.attention.packed_keys = true;
      if (kind == 2) layout.attention.page_size = 16;
      if (kind == 3) layout.attention.tokens_outside = true;
      if (kind == 4) layout.alias = Alias::first_input, layout.attention.kv_offsets = true;
      layouts.push_back(layout);
    }
  }
  compare_attention(
      "dimensions at guard pages",
      [](bool whole) {
        std::vector<Problem> problems;
        const std::size_t step = native_or_emulated<std::size_t>(whole ? 1 : 5, whole ? 9 : 25);
        for (std::size_t dim = 1; dim <= 80; dim += step) {
          // All that a few rows leave over, and all that a tile does.
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
        return problems;
      },
      [&](const Problem &) { return layouts; });
}

TEST_CASE("the dimensions of models") {
  compare_attention(
      "dimensions of models",
      [](bool whole) {
        std::vector<Problem> problems;
        std::size_t count = 0;
        for (const auto &[qk_dim, v_dim] : {std::pair<std::size_t, std::size_t>{64, 64},
                                            {80, 80},
                                            {96, 96},
                                            {112, 112},
                                            {128, 128},
                                            {192, 128},
                                            {256, 256},
                                            {576, 512}}) {
          for (const std::size_t rows : Sizes{1, 3, 16, 70}) {
            for (const std::size_t keys : Sizes{1, 64, 65, 200, 513, 1100}) {
              for (const std::size_t group : Sizes{1, 4, 16}) {
                count += 1;
                if ((!whole || emulated()) && count % (emulated() ? 37 : 7) != 0) continue;
                if (rows * keys * group * (qk_dim + v_dim) >
                    native_or_emulated<std::size_t>(3000000, 100000)) {
                  continue;
                }
                Problem problem;
                problem.rows = rows;
                problem.cols = keys;
                problem.seed = count;
                problem.scale = 0;
                problem.attention.qk_dim = qk_dim;
                problem.attention.v_dim = v_dim;
                problem.attention.group = group;
                problem.options.causal = problem.attention.bottom_right = count % 2 == 0;
                problems.push_back(problem);
              }
            }
          }
        }
        return problems;
      },
      plain_and_random_layouts(1));
}

// A comparison is worth something only if what is compared is not all NaN or zeros.
TEST_CASE("many results are ordinary numbers") {
  std::size_t ordinary = 0, all = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (kernel.name != std::string_view("attention_f32")) continue;
    for (const Problem &problem : random_problems(60, 20260101, 100000)) {
      for (const std::uint64_t bits : kernel.run(problem, Layout{}).bits) {
        const float value = from_bits<float>(static_cast<std::uint32_t>(bits));
        all += 1;
        ordinary += std::isfinite(value) && value != 0;
      }
    }
  }
  CHECK(ordinary * 3 > all);
}
