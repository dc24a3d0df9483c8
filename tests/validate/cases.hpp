// Makes the cases of a kernel: first the directed cases, which are the same under any seed, then random
// cases. The same seed gives the same cases on every platform, because their results are hashed.
#pragma once

#include <cstdint>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::validate {

enum class Effort { quick, full };

inline constexpr std::uint64_t default_seed = 1;

// Holds a problem and the layouts in which it runs. No layout may change its result.
struct LaidOutProblem {
  test::Problem problem;
  std::vector<test::Layout> layouts;
  const char *rule = nullptr;  // the rule of a directed case; null for a random case
};

std::vector<LaidOutProblem> make_cases(const test::KernelCase &kernel, Effort effort, std::uint64_t seed);

}  // namespace rapt::validate
