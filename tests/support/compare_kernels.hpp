// Compares the results of kernels on all levels, and reports differences as doctest failures.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string_view>

#include "support/bits.hpp"
#include "support/compare.hpp"

namespace rapt::test {

// Compares the levels on problems_of(kernel) for every kernel that applies() accepts. Prints counts.
template <class Applies, class ProblemsOf>
void compare_kernels(const char *what, Applies &&applies, ProblemsOf &&problems_of,
                     const LayoutsOf &layouts) {
  std::size_t calls = 0, elements = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (!applies(kernel.traits)) continue;
    const Comparison comparison = compare_levels(kernel, problems_of(kernel), layouts);
    for (const std::string &failure : comparison.failures) FAIL_CHECK(failure);
    CHECK(comparison.calls > 0);
    calls += comparison.calls;
    elements += comparison.elements;
  }
  CHECK(calls > 0);
  std::printf("%-28s %9zu calls, %11zu results compared with the scalar level's\n", what, calls, elements);
}

// Checks that more than a third of an f32 kernel's results are finite and not 0, because equal NaNs would
// prove nothing.
inline void check_results_are_ordinary(std::string_view name, const std::vector<Problem> &problems) {
  std::size_t ordinary = 0, all = 0;
  for (const KernelCase &kernel : kernel_cases()) {
    if (kernel.name != name) continue;
    for (const Problem &problem : problems) {
      for (const std::uint64_t bits : kernel.run(problem, Layout{}).bits) {
        const float value = from_bits<float>(static_cast<std::uint32_t>(bits));
        all += 1;
        ordinary += std::isfinite(value) && value != 0;
      }
    }
  }
  CHECK(all > 0);
  CHECK(ordinary * 3 > all);
}

}  // namespace rapt::test
