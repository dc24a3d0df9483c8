// Tests that the text of a case can be read back, so that the text of a failure reproduces the case.
#include "support/case_text.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "support/effort.hpp"
#include "support/kernel_case.hpp"
#include "support/options.hpp"
#include "validate/cases.hpp"
#include "validate/directed_cases.hpp"

using namespace rapt::test;
using namespace rapt::validate;

TEST_CASE("every case is read as it was written") {
  const Effort effort = everything() ? Effort::full : Effort::quick;
  std::size_t cases = 0, wrong = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    for (const LaidOutProblem &made : make_cases(kernel, effort, default_seed)) {
      for (const Layout &layout : made.layouts) {
        Case given{made.problem, layout}, read;
        RowsProblem *const rows = given.problem.of_rows();
        if (rows && cases % 7 == 0) rows->window = {rows->rows / 2, 1};
        const std::string text = to_text(given);
        const std::string complaint = parse_case(kernel.traits.family, text, read);
        cases += 1;
        if (complaint.empty() && read == given && to_text(read) == text) continue;
        if (wrong++ == 0) FAIL_CHECK(text << ": " << complaint << ", read as: " << to_text(read));
      }
    }
  }
  CHECK(cases > (effort == Effort::full ? 100000 : 10000));
  CHECK(wrong == 0);
}

// If two options had the same word, reading this word would set both options.
TEST_CASE("every option has a word of its own, and its default is not written") {
  for (const Family family :
       {Family::vector, Family::dot_rows, Family::softmax, Family::softmax_backward, Family::attention,
        Family::linear, Family::rope, Family::reduce, Family::convolution, Family::delta_rule}) {
    std::set<std::string> words;
    std::size_t options = 0;
    const Case plain{make_problem(family, {}), {}};
    for_each_option(plain, [&](const auto &, const auto &option) {
      words.insert(option.word);
      options += 1;
    });
    CHECK(words.size() == options);
    CHECK(to_text(plain) ==
          (family == Family::vector ? "n=0 input=gaussian seed=1" : "rows=1 n=0 input=gaussian seed=1"));
  }
}

TEST_CASE("each choice of one option differs from the others") {
  const std::vector<SoftmaxOptions> alone = each_softmax_option_alone();
  CHECK(alone.size() == 15);
  for (std::size_t i = 0; i < alone.size(); ++i) {
    CHECK(std::ranges::count(alone, alone[i]) == 1);
    CHECK_FALSE(alone[i] == SoftmaxOptions{});
  }
}

TEST_CASE("texts of version 0.2 name numbers that a kernel does not have") {
  Case read;
  CHECK(parse_case(Family::vector, "rows=1 n=17 input=uniform seed=5 scale=0x1p-3", read).empty());
  CHECK(to_text(read) == "n=17 scale=0x1p-3 input=uniform seed=5");
  CHECK(parse_case(Family::softmax, "rows=3 n=4 input=gaussian seed=2 shift=0x1.8p+1", read).empty());
  CHECK(to_text(read) == "rows=3 n=4 input=gaussian seed=2");
  CHECK_FALSE(parse_case(Family::softmax, "shift=x", read).empty());
  CHECK_FALSE(parse_case(Family::softmax, "shift", read).empty());
}

TEST_CASE("every directed case is understood, and is some kernel's") {
  for (const DirectedCase &directed : directed_cases()) {
    CAPTURE(directed.rule);
    CAPTURE(directed.text);
    std::size_t kernels = 0, of_f32 = 0, of_f64 = 0;
    for (const KernelCase &kernel : kernel_cases()) {
      if (!is_for(directed, kernel.name)) continue;
      Case read;
      CHECK(parse_case(kernel.traits.family, directed.text, read).empty());
      kernels += 1;
      of_f32 += std::string_view(kernel.name).ends_with("_f32");
      of_f64 += std::string_view(kernel.name).ends_with("_f64");
    }
    CHECK(of_f32 == of_f64);
    CHECK(kernels > 0);
  }
}

TEST_CASE("every case of a way is understood, and each of its words is some kernel's") {
  for (const DirectedCase &way : cases_of_ways()) {
    CAPTURE(way.rule);
    CAPTURE(way.text);
    std::istringstream words(way.kernels);
    for (std::string word; words >> word;) {
      CAPTURE(word);
      std::size_t kernels = 0;
      for (const KernelCase &kernel : kernel_cases()) {
        if (!is_for({way.rule, word.c_str(), way.text}, kernel.name)) continue;
        Case read;
        CHECK(parse_case(kernel.traits.family, way.text, read).empty());
        kernels += 1;
      }
      CHECK(kernels > 0);
    }
  }
}

TEST_CASE("what is not understood is named") {
  Case read;
  CHECK(parse_case(Family::attention, "", read).empty());
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
                           "page_size=4112",
                           "batch=4097",
                           "sinks=1",
                           "softcap",
                           "same_row",
                           "no_options",
                           "calls=some",
                           "window_left=-2"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_case(Family::attention, text, read).empty());
  }
  for (const char *text :
       {"outputs=4097", "outputs=-1", "add=some", "x_order=some", "packed_w=1", "causal=0", "types=f32"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_case(Family::linear, text, read).empty());
  }
  for (const char *text : {"kv_heads=1", "page_size=16", "row_lengths=1", "causal", "scale=", "same_row"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_case(Family::softmax, text, read).empty());
  }
}
