#include "support/compare.hpp"

#include <cstdio>

#include "support/bits.hpp"
#include "support/case_text.hpp"
#include "support/isa.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t failures_kept = 5;

std::vector<Outcome> reference_outcomes(const KernelCase &kernel, const std::vector<Problem> &problems) {
  const ForcedIsa scalar("scalar");
  std::vector<Outcome> outcomes;
  outcomes.reserve(problems.size());
  for (const Problem &problem : problems) outcomes.push_back(kernel.run(problem, Layout{}));
  return outcomes;
}

void judge(const KernelCase &kernel, const std::string &isa, const Problem &problem, const Layout &layout,
           const Outcome &got, const Outcome &expected, Comparison &comparison) {
  comparison.calls += 1;
  comparison.elements += got.bits.size();
  const std::string found = difference(got, expected, kernel.traits.element_size);
  if (found.empty() || comparison.failures.size() >= failures_kept) return;
  comparison.failures.push_back(std::string(kernel.name) + " on " + isa + ": " + to_text({problem, layout}) +
                                ": " + found);
}

}  // namespace

std::string difference(const Outcome &got, const Outcome &expected, std::size_t element_size) {
  if (!got.fault.empty()) return got.fault;
  if (got.bits.size() != expected.bits.size()) return "another number of results";
  std::size_t differing = 0, first = 0;
  for (std::size_t i = got.bits.size(); i-- > 0;) {
    if (got.bits[i] == expected.bits[i]) continue;
    differing += 1;
    first = i;
  }
  if (differing == 0) return {};
  return "index " + std::to_string(first) + ": got " + hex(got.bits[first], element_size) + ", expected " +
         hex(expected.bits[first], element_size) + " (" + std::to_string(differing) + " of " +
         std::to_string(got.bits.size()) + " differ)";
}

Comparison compare_levels(const KernelCase &kernel, const std::vector<Problem> &problems,
                          const LayoutsOf &layouts) {
  const std::vector<Outcome> expected = reference_outcomes(kernel, problems);
  Comparison comparison;
  for_each_usable_isa(kernel.name, [&](const std::string &isa) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      for (const Layout &layout : layouts(problems[i])) {
        judge(kernel, isa, problems[i], layout, kernel.run(problems[i], layout), expected[i], comparison);
      }
    }
  });
  return comparison;
}

Comparison compare_rows_alone(const KernelCase &kernel, const std::vector<Problem> &problems) {
  const std::vector<Outcome> expected = reference_outcomes(kernel, problems);
  Comparison comparison;
  for_each_usable_isa(kernel.name, [&](const std::string &isa) {
    for (std::size_t i = 0; i < problems.size(); ++i) {
      Problem alone = problems[i];
      RowsProblem &of = *alone.of_rows();
      const std::size_t width = expected[i].bits.size() / of.rows;
      for (std::size_t r = 0; r < of.rows; ++r) {
        of.window = {r, 1};
        Outcome row;
        row.bits.assign(expected[i].bits.begin() + static_cast<std::ptrdiff_t>(r * width),
                        expected[i].bits.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
        judge(kernel, isa, alone, Layout{}, kernel.run(alone, Layout{}), row, comparison);
      }
    }
  });
  return comparison;
}

}  // namespace rapt::test
