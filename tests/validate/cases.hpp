// What is run: the same cases for the same seed on every platform, as their results are hashed.
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
};

std::vector<LaidOutProblem> make_cases(const test::KernelTraits &traits, Effort effort, std::uint64_t seed);

}  // namespace rapt::validate
