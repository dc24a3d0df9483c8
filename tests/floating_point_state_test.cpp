// Tests that the caller's rounding mode and flush-to-zero settings don't change results, and that calls don't
// change these settings.
#include <doctest/doctest.h>

#include <cfenv>
#include <cstdio>
#include <vector>

#include "api/floating_point.hpp"
#include "support/compare.hpp"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/public_api.hpp"

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
        if ((kernel.traits.is_attention() || kernel.traits.is_linear()) && n == 2100) continue;
        const std::size_t rows = n < 300 ? 5 : 2;  // softmax computes short rows in groups
        Problem problem = make_problem(kernel.traits.family, {rows, n, input, 10 + n, 0.3, 1.7});
        problems.push_back(problem);
        if (auto *const softmax = std::get_if<SoftmaxProblem>(&problem.of)) {
          softmax->options = {.softcap = 50, .bias = PerRow::each, .sinks = true};
        } else if (auto *const attention = std::get_if<AttentionProblem>(&problem.of)) {
          attention->options = {
              .softcap = 50, .bias = PerRow::each, .sinks = true, .query_scales = true, .alibi = true};
        } else if (auto *const linear = std::get_if<LinearProblem>(&problem.of)) {
          linear->bias = linear->row_scales = true;
          linear->add = Addend::like_y;
        } else {
          continue;
        }
        problems.push_back(problem);
        // 2^-126 is the smallest scale that the functions accept for f32. It makes ordinary logits subnormal.
        problems.push_back(make_problem(kernel.traits.family, {rows, n, input, 10 + n, 0x1p-126}));
      }
    }
    const Comparison comparison = compare_levels(kernel, problems, [&](const Problem &) { return layouts; });
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    calls += comparison.calls;
  }
  std::printf("%zu calls under %zu foreign floating-point states\n", calls, states.size());
}

// The caller's mode must not change which arguments are refused. Checking arguments must not trap.
TEST_CASE_TEMPLATE("arguments are checked in the default mode", T, float, double) {
  std::vector<std::uint64_t> states;
  for (const FpState &state : foreign_fp_states()) states.push_back(state.control);
  states.push_back(trapping_fp_control());
  const T x[2] = {1, 2}, q[2] = {1, 2};
  for (const std::uint64_t state : states) {
    CAPTURE(state);
    for (const double tiny : {-0x1p-1074, 0x1p-1074, -0x1p-1030}) {
      rapt_softmax_options row = RAPT_SOFTMAX_OPTIONS_INIT, scaled_row = row;
      row.softcap = scaled_row.scale = tiny;
      rapt_attention_options one = attention_options<T>();
      one.q_len = one.kv_len = 1;
      one.qk_dim = 2;
      rapt_attention_options scaled = one;
      one.softcap = scaled.scale = tiny;
      T y[2] = {7, 7}, out[2] = {7, 7};
      std::vector<unsigned char> workspace(1 << 20);
      std::size_t bytes = 0, tasks = 0;
      rapt_status got[8];
      const std::uint64_t own = read_fp_control();
      write_fp_control(state);
      got[0] = Api<T>::softmax(x, 2, y, 2, 1, 2, &row);
      got[1] = Api<T>::softmax(x, 2, y, 2, 1, 2, &scaled_row);
      got[2] = Api<T>::logsumexp(x, 2, y, 1, 2, &row);
      got[3] = rapt_attention(q, x, x, out, &one, workspace.data(), workspace.size());
      got[4] = rapt_attention(q, x, x, out, &scaled, workspace.data(), workspace.size());
      got[5] = rapt_attention_workspace(&one, &bytes);
      got[6] = rapt_attention_tasks(&scaled, &tasks);
      got[7] = rapt_attention_partial_tasks(&one, &tasks, &bytes);
      write_fp_control(own);
      for (const int i : {0, 2, 3, 5, 7}) CHECK(got[i] == RAPT_BAD_SOFTCAP);
      for (const int i : {1, 4, 6}) CHECK(got[i] == RAPT_BAD_SCALE);
      for (const T value : {y[0], y[1], out[0], out[1]}) CHECK(value == T(7));
    }
  }
}

// If these states had no effect, a comparison of results under them would pass for any library.
TEST_CASE("the foreign states change plain arithmetic") {
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

// in_default_mode<Environment> is for processors whose control register the library does not know. glibc
// keeps the default-NaN bit of AArch64, which changes only the payloads of NaN.
TEST_CASE("C's environment stands in for a control register") {
#if defined(__aarch64__)
  constexpr std::uint64_t kept = std::uint64_t{1} << 25;
#else
  constexpr std::uint64_t kept = 0;
#endif
  const std::uint64_t own = read_fp_control();
  for (const FpState &state : foreign_fp_states()) {
    CAPTURE(state.name);
    write_fp_control(state.control);
    const std::uint64_t inside = rapt::in_default_mode<rapt::Environment>([] { return read_fp_control(); });
    const std::uint64_t after = read_fp_control();
    write_fp_control(own);
    CHECK((inside & ~kept) == own);
    CHECK(after == state.control);
  }
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    const int inside = rapt::in_default_mode<rapt::Environment>([] { return std::fegetround(); });
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    CHECK(inside == FE_TONEAREST);
    CHECK(after == rounding);
  }
}
