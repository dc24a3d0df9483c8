// A case of rapt-validate survives being written and read: what a failure prints reproduces it.
#include "validate/case_text.hpp"

#include <doctest/doctest.h>

#include "support/kernel_case.hpp"
#include "validate/cases.hpp"
#include "validate/directed_cases.hpp"

using namespace rapt::test;
using namespace rapt::validate;

namespace {

bool same(const RowOptions &a, const RowOptions &b) {
  return a.null == b.null && a.softcap == b.softcap && a.bias == b.bias &&
         a.bias_excludes == b.bias_excludes && a.mask == b.mask && a.row_lengths == b.row_lengths &&
         a.causal == b.causal && (!a.causal || a.causal_offset == b.causal_offset) && a.sinks == b.sinks &&
         a.special_sinks == b.special_sinks && a.empty_rows_are_zero == b.empty_rows_are_zero;
}

bool same(const AttentionOptions &a, const AttentionOptions &b) {
  return a.batch == b.batch && a.kv_heads == b.kv_heads && a.group == b.group && a.qk_dim == b.qk_dim &&
         a.v_dim == b.v_dim && a.ragged_queries == b.ragged_queries && a.query_scales == b.query_scales &&
         a.alibi == b.alibi && a.bottom_right == b.bottom_right && a.window_left == b.window_left &&
         a.window_right == b.window_right && a.window_chunk == b.window_chunk;
}

bool same(const AttentionLayout &a, const AttentionLayout &b) {
  return a.tokens_outside == b.tokens_outside && a.fused == b.fused && a.page_size == b.page_size &&
         a.packed_keys == b.packed_keys && a.q_offsets == b.q_offsets && a.kv_offsets == b.kv_offsets &&
         a.repeated_heads == b.repeated_heads && a.calls == b.calls;
}

bool same(const Problem &a, const Problem &b) {
  return a.rows == b.rows && a.cols == b.cols && a.input == b.input && a.seed == b.seed &&
         a.scale == b.scale && std::signbit(a.scale) == std::signbit(b.scale) && a.shift == b.shift &&
         a.same_row == b.same_row && a.first_row == b.first_row && a.row_count == b.row_count &&
         same(a.options, b.options) && same(a.attention, b.attention);
}

bool same(const Layout &a, const Layout &b) {
  return a.placement == b.placement && a.offset == b.offset && a.gap == b.gap && a.alias == b.alias &&
         a.reversed == b.reversed && same(a.attention, b.attention) &&
         a.fp_state.has_value() == b.fp_state.has_value() &&
         (!a.fp_state || a.fp_state->control == b.fp_state->control);
}

}  // namespace

TEST_CASE("every case is read as it was written") {
  std::size_t cases = 0, wrong = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    for (const LaidOutProblem &made : make_cases(kernel, Effort::full, default_seed)) {
      for (const Layout &layout : made.layouts) {
        Case given{made.problem, layout}, read;
        if (cases % 7 == 0) given.problem.first_row = made.problem.rows / 2, given.problem.row_count = 1;
        const std::string text = to_text(given);
        const std::string complaint = parse_case(text, read);
        cases += 1;
        if (complaint.empty() && same(given.problem, read.problem) && same(given.layout, read.layout))
          continue;
        if (wrong++ == 0) FAIL_CHECK(text << ": " << complaint << ", read as: " << to_text(read));
      }
    }
  }
  CHECK(cases > 100000);
  CHECK(wrong == 0);
}

TEST_CASE("every directed case is understood, and is some kernel's") {
  for (const DirectedCase &directed : directed_cases()) {
    CAPTURE(directed.rule);
    CAPTURE(directed.text);
    Case read;
    CHECK(parse_case(directed.text, read).empty());
    std::size_t kernels = 0;
    for (const KernelCase &kernel : kernel_cases()) kernels += is_for(directed, kernel.name);
    CHECK(kernels % 2 == 0);  // of both types
    CHECK(kernels > 0);
  }
}

TEST_CASE("what is not understood is named") {
  Case read;
  CHECK(parse_case("", read).empty());
  for (const char *text : {"n",
                           "n=",
                           "n=x",
                           "n=-1",
                           "colour=red",
                           "input=gauss",
                           "offset=1,2",
                           "offset=1,2,3,4",
                           "bias=some",
                           "window=3",
                           "rows=1 window=2,1",
                           "gap=0,-1,0",
                           "seed=99999999999999999999",
                           "rows=99999999999 n=99999999999",
                           "offset=99999,0,0",
                           "kv_heads=0",
                           "qk_dim=99999",
                           "page_size=17",
                           "calls=some",
                           "window_left=-2"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_case(text, read).empty());
  }
}
