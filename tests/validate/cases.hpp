// Makes the cases of a kernel: first the directed cases, which are the same for any seed, then random cases.
// A seed gives the same cases on every platform, because their results are hashed.
#pragma once

#include <cstdint>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::validate {

enum class Effort { quick, full };

inline constexpr std::uint64_t default_seed = 1;

// Holds a problem and the layouts to run it in. No layout may change the result.
struct LaidOutProblem {
  test::Problem problem;
  std::vector<test::Layout> layouts;
  const char *rule = nullptr;  // the rule of a directed case; null for a random case
};

std::vector<LaidOutProblem> make_cases(const test::KernelCase &kernel, Effort effort, std::uint64_t seed);

}  // namespace rapt::validate
