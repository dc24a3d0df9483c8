// Tests each kernel that tests/calls describes, on calls that are drawn: the status of each argument at its limits and
// past them, the accuracy of the results, and that no level reads or writes outside the arrays, wherever they lie.
//
// RAPT_CALLS_OF=<part of a kernel's name> and RAPT_CALL=<number> run some of the drawn calls again.
// RAPT_TEST_EVERYTHING=1 draws twice as many.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "calls/draw.hpp"
#include "rapt/rapt.h"
#include "support/case_text.hpp"
#include "support/effort.hpp"
#include "support/faults.hpp"
#include "support/isa.hpp"
#include "validate/accuracy.hpp"

using namespace rapt::test;

namespace {

char running[1024];  // the call, for the report of a fault

void note(const KernelCase &kernel, const Case &drawn, const char *what = "") {
  std::snprintf(running, sizeof running, "%s on %s: %s %s", kernel.name, rapt_active_isa(),
                to_text(drawn).c_str(), what);
}
void catch_faults_of_calls() {
  catch_faults([](char *text, std::size_t size) { std::snprintf(text, size, "%s", running); });
}

// Runs body(kernel, number, random) for drawn calls of each described kernel.
template <class Body>
void for_each_call(std::size_t count, Body &&body) {
  catch_faults_of_calls();
  const char *const only = std::getenv("RAPT_CALL");
  if (everything()) count *= 2;
  for (const KernelCase *const described : described_kernels()) {
    const KernelCase &kernel = *described;
    INFO(std::string(kernel.name));
    for (std::size_t number = 1; number <= count; ++number) {
      if (only && number != std::strtoull(only, nullptr, 10)) continue;
      CAPTURE(number);
      Random random(number);
      body(kernel, number, random);
    }
  }
}

void check_call(const KernelCase &kernel, const Case &drawn, const std::string &level) {
  INFO(to_text(drawn));
  Problem whole = drawn.problem;
  Outcome expected;
  {
    const ForcedIsa forced("scalar");
    note(kernel, drawn);
    expected = kernel.run(drawn.problem, drawn.layout);
    CHECK(expected.fault == "");
    if (RowsProblem *const rows = whole.of_rows()) rows->window = {};
    const Outcome all = kernel.run(whole, {});
    const rapt::validate::Judgement judgement =
        rapt::validate::accuracy_of(kernel.name)->judge(whole, all.bits);
    CAPTURE(judgement.error);
    CAPTURE(judgement.bound);
    CHECK((!judgement.measured || judgement.error <= judgement.bound));
  }
  const ForcedIsa forced(level);
  note(kernel, drawn);
  INFO(level);
  const Outcome got = kernel.run(drawn.problem, drawn.layout);
  CHECK(got.fault == "");
  CHECK(got.bits == expected.bits);
}

// Returns the status of a set that has one.
std::optional<rapt_status> only_one_of(Statuses set) {
  for (int status = 1; status < Statuses::limit; ++status) {
    if (set == only(static_cast<rapt_status>(status))) return static_cast<rapt_status>(status);
  }
  return std::nullopt;
}

bool is_of_many_fields(rapt_status status) {
  return status == RAPT_BAD_SIZE || status == RAPT_BAD_OVERLAP || status == RAPT_BAD_TYPE ||
         status == RAPT_BAD_SHAPE || status == RAPT_BAD_PACKED || status == RAPT_BAD_OPTIONS_SIZE;
}

// Reads the names of the fields of each struct of rapt.h.
std::map<std::string, std::set<std::string>> fields_of_structs() {
  static const std::regex begin("^typedef struct (\\w+) \\{"),
      field("^  (const )?[a-z]\\w* (\\*?\\w+(, \\*?\\w+)*);"), word("\\w+");
  std::ifstream header(RAPT_TEST_SOURCE "/include/rapt/rapt.h");
  std::map<std::string, std::set<std::string>> structs;
  std::set<std::string> *fields = nullptr;
  for (std::string line; std::getline(header, line);) {
    std::smatch found;
    if (std::regex_search(line, found, begin)) {
      fields = &structs[found[1]];
    } else if (line.starts_with("}")) {
      fields = nullptr;
    } else if (fields && std::regex_search(line, found, field)) {
      const std::string names = found[2];
      for (std::sregex_iterator at(names.begin(), names.end(), word), end; at != end; ++at)
        fields->insert(at->str());
    }
  }
  return structs;
}

}  // namespace

TEST_CASE("every kernel is described, but for attention") {
  for (const KernelCase &kernel : kernel_cases()) {
    INFO(std::string(kernel.name));
    CHECK((kernel.make == nullptr) == kernel.traits.is_attention());
  }
}

TEST_CASE("each argument at its limits, and past them") {
  std::size_t tried = 0;
  for_each_call(native_or_emulated<std::size_t>(60, 6),
                [&](const KernelCase &kernel, std::size_t number, Random &random) {
                  const Case drawn = draw_case(random, kernel, 600);
                  Layout layout = in_one_call(drawn.layout);
                  if (number % 2 == 0) layout.alias = Alias::none;
                  const std::vector<std::string> levels = isas_to_test(kernel.name);
                  const ForcedIsa forced(levels[number % levels.size()]);
                  for (std::size_t i = 0, count = 1; i < count; ++i) {
                    const std::unique_ptr<Call> call = kernel.make(drawn.problem, layout);
                    call->place(layout);
                    const std::vector<Limit> limits = call->limits();
                    count = limits.size();
                    if (count == 0) break;
                    const Limit &limit = limits[i];
                    note(kernel, drawn, (std::string(limit.field) + ", limit " + std::to_string(i)).c_str());
                    limit.change();
                    const rapt_status status = call->run();
                    INFO(std::string(running), ": ", std::string(rapt_status_text(status)));
                    CHECK((limit.expected == 0 ? status == RAPT_OK : has(limit.expected, status)));
                    std::vector<std::uint64_t> results;
                    if (limit.expected == 0) call->take(results);
                    if (limit.expected != 0) {
                      for (const rapt_status other : call->elsewhere(limit.where)) {
                        INFO("elsewhere: ", std::string(rapt_status_text(other)));
                        CHECK(has(limit.expected, other));
                      }
                    }
                    CHECK(call->touched() == nullptr);
                    tried += 1;
                  }
                });
  std::printf("%zu limits of arguments\n", tried);
  CHECK(tried > 1000);
}

// The limits have every field of the options, and the text of a status names the field.
TEST_CASE("the limits are those of rapt.h") {
  const std::map<std::string, std::set<std::string>> structs = fields_of_structs();
  std::map<std::string, std::set<std::string>> seen;
  for_each_call(200, [&](const KernelCase &kernel, std::size_t, Random &random) {
    const Case drawn = draw_case(random, kernel, 100);
    const std::unique_ptr<Call> call = kernel.make(drawn.problem, in_one_call(drawn.layout));
    call->place(drawn.layout);
    std::set<std::string> &fields = seen[call->options() ? call->options() : ""];
    for (const Operand &operand : call->operands()) fields.insert(operand.name);
    for (const Limit &limit : call->limits()) {
      fields.insert(limit.field);
      const std::optional<rapt_status> status = only_one_of(limit.expected);
      if (!status || is_of_many_fields(*status)) continue;
      const std::string text = rapt_status_text(*status);
      INFO(std::string(limit.field), ": ", text);
      CHECK(text.find(limit.field) != std::string::npos);
    }
  });
  for (const auto &[name, fields] : seen) {
    CAPTURE(name);
    if (name.empty()) continue;
    REQUIRE(structs.contains(name));
    for (const std::string &field : structs.at(name)) {
      CAPTURE(field);
      CHECK(fields.contains(field));
    }
  }
}

TEST_CASE("drawn calls have the accuracy that rapt.h promises, and the bits of the scalar level") {
  for_each_call(native_or_emulated<std::size_t>(400, 20), [](const KernelCase &kernel, std::size_t number,
                                                             Random &random) {
    // Few are so large that they are computed in several tasks, sections or stretches.
    const std::size_t most = emulated() || number % 20 != 0 ? 5000 : number % 100 != 0 ? 60000 : 150000;
    const std::vector<std::string> levels = isas_to_test(kernel.name);
    check_call(kernel, draw_case(random, kernel, most), levels[number % levels.size()]);
  });
}

// Drawn calls seldom have these shapes, at which a kernel changes its way.
// Levels may add products of small codes in fewer bits than 32, where one product too many would overflow. Integers
// that differ, or are rounded, hardly ever show it.
TEST_CASE("sums of the largest products of integers") {
  catch_faults_of_calls();
  std::size_t tried = 0;
  for (const KernelCase *const kernel : described_kernels()) {
    if (std::string(kernel->name) != "linear_in_i8") continue;
    for (const std::string weights :
         {"i8 scale_group=256", "i4 scale_group=16", "i4 scale_group=64", "u4", "u4 scale_group=32",
          "u4 scale_group=256 scales", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k"}) {
      for (const char *rows : {"1", "2", "3", "4", "6"}) {
        Case made;
        REQUIRE(parse_case(kernel->traits.family,
                           "rows=" + std::string(rows) +
                               " n=256 outputs=65 types=i8_f32_f32 input=largest packed_w weights=" + weights,
                           made) == "");
        for (const std::string &level : isas_to_test(kernel->name)) check_call(*kernel, made, level);
        tried += 1;
      }
    }
  }
  CHECK((tried > 0 || std::getenv("RAPT_CALLS_OF")));
}

TEST_CASE(
    "calls of certain shapes have the accuracy that rapt.h promises, and the bits of the scalar level") {
  const struct {
    const char *kernels, *text;
  } calls[] = {
      // The last rows of one pass, and the first of sections that each have a larger maximum.
      {"softmax_f", "rows=1 n=131072 input=rising"},
      {"softmax_f", "rows=1 n=131073 input=rising"},
      {"log_softmax", "rows=1 n=133121 input=rising row_lengths"},
      {"logsumexp", "rows=1 n=131071 input=rising"},
      {"logsumexp", "rows=1 n=133120 input=rising"},
      {"exp_sum", "n=133120 input=rising"},
      // The next row is read while a long row is written.
      {"softmax_f", "rows=2 n=4100 softcap=5 sinks bias=each causal=1"},
      {"softmax_f", "rows=2 n=4100 scale=-0.3 row_lengths mask=each"},
  };
  catch_faults_of_calls();
  for (const auto &[kernels, text] : calls) {
    std::size_t tried = 0;
    for (const KernelCase &kernel : kernel_cases()) {
      const std::string name = kernel.name;
      if (!name.starts_with(kernels) || name.find("_backward") != std::string::npos) continue;
      Case drawn;
      REQUIRE(parse_case(kernel.traits.family, text, drawn) == "");
      tried += 1;
      INFO(std::string(kernel.name));
      for (const std::string &level : isas_to_test(kernel.name)) check_call(kernel, drawn, level);
    }
    CHECK(tried > 0);
  }
}

// Lengths up to several vectors at each distance from a guard page within 64 bytes. Longer ones, and the scalar level,
// whose loops are plain, have two distances: 0, and one that changes with the length.
TEST_CASE("arrays flush against guard pages") {
  catch_faults_of_calls();
  std::size_t calls = 0;
  for (const KernelCase *const described : described_kernels()) {
    const KernelCase &kernel = *described;
    INFO(std::string(kernel.name));
    const std::vector<std::string> levels = isas_to_test(kernel.name);
    const std::size_t size = kernel.traits.element_size, dense = emulated() ? 40 : everything() ? 400 : 200;
    for (std::size_t n = 1; n <= native_or_emulated<std::size_t>(1100, 130); n += emulated() ? 5
                                                                                  : n < 300  ? 1
                                                                                             : 3) {
      Random random(n);
      Case drawn = draw_case(random, kernel, 5000);
      drawn.problem.input = InputClass::gaussian;
      drawn.problem.set_cols(n);
      if (RowsProblem *const rows = drawn.problem.of_rows()) rows->rows = 1 + n % 3, rows->window = {};
      // A longer row has too many products.
      if (auto *const of = std::get_if<ConvolutionProblem>(&drawn.problem.of)) {
        if (n > 60 && n % 25 != 0) continue;
        for (std::size_t *const size_of : {&of->channels, &of->outputs, &of->groups, &of->height, &of->depth})
          *size_of = std::min<std::size_t>(*size_of, 3);
      }
      // What surrounds a long row would only repeat it.
      if (auto *const of = std::get_if<ReduceProblem>(&drawn.problem.of); of && n > 60) {
        of->outer = std::min<std::size_t>(of->outer, 2);
        of->middle = std::min<std::size_t>(of->middle, 2);
      }
      drawn.layout.offset = {};
      const std::unique_ptr<Call> call = kernel.make(drawn.problem, drawn.layout);
      if (!call) continue;  // blocks of a file have no such row
      std::vector<std::uint64_t> expected;
      for (const std::string &level : levels) {
        const ForcedIsa forced(level);
        note(kernel, drawn);
        const bool is_thin = level == "scalar" || n > dense;
        for (std::size_t offset = 0; offset < 64; offset += size) {
          if (is_thin && offset != 0 && offset != n * size % 64) continue;
          for (const Placement placement : {Placement::ends_at_guard, Placement::begins_at_guard}) {
            Layout layout = drawn.layout;
            layout.placement = placement;
            layout.offset = {offset, offset, offset};
            call->place(layout);
            const rapt_status status = call->run();
            std::vector<std::uint64_t> got;
            call->take(got);
            calls += 1;
            if (expected.empty()) expected = got;
            if (status == RAPT_OK && !call->touched() && got == expected) continue;
            drawn.layout = layout;
            FAIL_CHECK(std::string(level), ": ", to_text(drawn));
          }
        }
      }
    }
  }
  std::printf("%zu calls next to guard pages\n", calls);
  CHECK(calls > 10000);
}
