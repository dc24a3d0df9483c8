// Attention on every usable level against the scalar one, bit for bit, and every way to lay out its memory and
// to cut its work against the plain one: pages, packed keys, offsets, repeated heads, tasks, split keys,
// sequences and queries alone, in place. Guard pages lie around every buffer, the workspace included.
#include <doctest/doctest.h>

#include <cstdio>

#include "support/attention_problems.hpp"
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
LayoutsOf plain_and_random_layouts(std::size_t element_size, std::size_t count) {
  return [=](const Problem &problem) {
    std::vector<Layout> layouts(1);
    Random random(problem.seed * 31 + problem.cols);
    AttentionMaker maker(random, 0);
    while (layouts.size() <= count) layouts.push_back(maker.layout(element_size));
    return layouts;
  };
}

template <class ProblemsOf>
void compare_attention(const char *what, ProblemsOf &&problems_of, std::size_t layouts) {
  std::size_t calls = 0, elements = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!kernel.traits.is_attention) continue;
    const Comparison comparison = compare_levels(
        kernel, problems_of(kernel), plain_and_random_layouts(kernel.traits.element_size, layouts));
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
      [](const KernelCase &kernel) {
        const bool whole = kernel.name == std::string("attention_f32") || kernel.name == std::string("attention_f64");
        return random_problems(native_or_emulated<std::size_t>(whole ? 500 : 100, whole ? 50 : 12),
                               whole ? 20260101 : 5, native_or_emulated<std::size_t>(1000000, 60000));
      },
      native_or_emulated<std::size_t>(3, 1));
}
