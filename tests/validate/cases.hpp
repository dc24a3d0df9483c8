// What is run: the same cases for the same seed on every platform, as their results are hashed. First the
// directed cases, under any seed, then random ones.
#pragma once

#include <cstdint>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::validate {

enum class Effort { quick, full };

inline constexpr std::uint64_t default_seed = 1;

// A problem and the layouts that it is run in; none of them may change its result.
struct LaidOutProblem {
  test::Problem problem;
  std::vector<test::Layout> layouts;
  const char *rule = nullptr;  // that the case was chosen for; null if it was drawn
};

std::vector<LaidOutProblem> make_cases(const test::KernelCase &kernel, Effort effort, std::uint64_t seed);

}  // namespace rapt::validate
