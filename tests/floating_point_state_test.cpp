// The caller's rounding mode and flush-to-zero settings neither change a result nor are changed.
#include <doctest/doctest.h>

#include <cstdio>

#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"

using namespace rapt::test;

TEST_CASE("the same bits under every floating-point state of the caller") {
  const std::vector<FpState> states = foreign_fp_states();
  if (states.empty()) {
    MESSAGE("skipped: this processor's floating-point control register is not known to the test");
    return;
  }
  std::vector<Layout> layouts;
  for (const FpState &state : states) {
    Layout layout;
    layout.fp_state = state;
    layouts.push_back(layout);
  }
  std::size_t calls = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    std::vector<Problem> problems;
    for (const InputClass input : all_input_classes) {
      for (const std::size_t n : Sizes{1, 31, 100, 333, 2100}) {
        if (emulated() && n != 31) continue;
        if (kernel.traits.is_attention && n == 2100) continue;
        Problem problem;
        problem.rows = kernel.traits.has_rows ? (n < 300 ? 5 : 2) : 1;  // softmax takes short rows by groups
        problem.cols = n;
        problem.input = input;
        problem.seed = 10 + n;
        problem.scale = 0.3;
        problem.shift = 1.7;
        problems.push_back(problem);
        if (!kernel.traits.takes_options && !kernel.traits.is_attention) continue;
        problem.options.softcap = 50;
        problem.options.bias = PerRow::each;
        problem.options.sinks = true;
        problem.attention.query_scales = problem.attention.alibi = true;
        problems.push_back(problem);
        problem.attention = {};
        // An even number of subnormal products and sums: the scale carries ordinary logits down there.
        problem.options = {};
        problem.scale = 1e-38;
        problems.push_back(problem);
      }
    }
    const Comparison comparison = compare_levels(kernel, problems, [&](const Problem &) { return layouts; });
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    calls += comparison.calls;
  }
  std::printf("%zu calls under %zu foreign floating-point states\n", calls, states.size());
}

// The comparison above is worth something only if the states take hold.
TEST_CASE("the states that are set do change plain arithmetic") {
  // Nearest rounds 1/3 down and 1/10 up, so that every other mode changes one of them.
  volatile double one = 1, three = 3, ten = 10;
  volatile float subnormal = 0x1p-130f, half = 0.5f;
  const double nearest_third = one / three, nearest_tenth = one / ten;
  for (const FpState &state : foreign_fp_states()) {
    CAPTURE(state.name);
    const std::uint64_t own = read_fp_control();
    write_fp_control(state.control);
    const std::uint64_t seen = read_fp_control();
    volatile double third = one / three, tenth = one / ten;
    volatile float product = subnormal * half;
    write_fp_control(own);
    CHECK(seen == state.control);
    const bool rounds_to_nearest = state.name.find("nearest") != std::string::npos;
    CHECK((third == nearest_third && tenth == nearest_tenth) == rounds_to_nearest);
    if (state.name[0] == 'F') CHECK(product == 0.0f);
  }
}
