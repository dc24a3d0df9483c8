#include "support/compare.hpp"

#include <cstdio>

#include "support/bits.hpp"
#include "support/case_text.hpp"
#include "support/isa.hpp"

namespace rapt::test {
namespace {

constexpr std::size_t failures_kept = 5;

Outcome reference_outcome(const KernelCase &kernel, const Problem &problem) {
  const ForcedIsa scalar("scalar");
  return kernel.run(problem, Layout{});
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

// Runs a problem on every level before the next problem, because only one problem's inputs are cached.
Comparison compare_levels(const KernelCase &kernel, const std::vector<Problem> &problems,
                          const LayoutsOf &layouts_of) {
  const std::vector<std::string> isas = isas_to_test(kernel.name);
  Comparison comparison;
  for (const Problem &problem : problems) {
    const Outcome expected = reference_outcome(kernel, problem);
    const std::vector<Layout> layouts = layouts_of(problem);
    for (const std::string &isa : isas) {
      const ForcedIsa forced(isa);
      for (const Layout &layout : layouts) {
        judge(kernel, isa, problem, layout, kernel.run(problem, layout), expected, comparison);
      }
    }
  }
  return comparison;
}

Comparison compare_rows_alone(const KernelCase &kernel, const std::vector<Problem> &problems) {
  const std::vector<std::string> isas = isas_to_test(kernel.name);
  Comparison comparison;
  for (const Problem &problem : problems) {
    const Outcome expected = reference_outcome(kernel, problem);
    Problem alone = problem;
    RowsProblem &of = *alone.of_rows();
    const std::size_t width = of.rows == 0 ? 0 : expected.bits.size() / of.rows;
    for (std::size_t r = 0; r < of.rows; ++r) {
      of.window = {r, 1};
      Outcome row;
      row.bits.assign(expected.bits.begin() + static_cast<std::ptrdiff_t>(r * width),
                      expected.bits.begin() + static_cast<std::ptrdiff_t>((r + 1) * width));
      for (const std::string &isa : isas) {
        const ForcedIsa forced(isa);
        judge(kernel, isa, alone, Layout{}, kernel.run(alone, Layout{}), row, comparison);
      }
    }
  }
  return comparison;
}

}  // namespace rapt::test
