// The cases of a kernel. First come the directed ones, which are the same under any seed, then random ones.
// The same seed gives the same cases on every platform, because their results are hashed.
#pragma once

#include <cstdint>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::validate {

enum class Effort { quick, full };

inline constexpr std::uint64_t default_seed = 1;

// A problem and the layouts that it runs in. No layout may change its result.
struct LaidOutProblem {
  test::Problem problem;
  std::vector<test::Layout> layouts;
  const char *rule = nullptr;  // of a directed case; null: a random one
};

std::vector<LaidOutProblem> make_cases(const test::KernelCase &kernel, Effort effort, std::uint64_t seed);

}  // namespace rapt::validate
