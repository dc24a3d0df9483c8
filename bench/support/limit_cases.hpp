// The cases that measure the machine rather than a kernel.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <vector>

#include "support/working_sets.hpp"

namespace rapt::bench {

// The kernel that they are filed under: limit/avx2/load:L1.
constexpr const char *limit_kernel = "limit";

struct LimitCase {
  std::string isa;
  std::string what;
  // Makes the buffers and returns the pass to time, which returns the bytes, floating-point operations or
  // cycles that it took.
  std::function<std::function<double()>()> make;
};

// In the order in which they are shown: fma_f32, fma_f64, clock, then by level load, store, copy, copy_nt and
// update.
std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas,
                                   const std::vector<WorkingSet> &levels);

}  // namespace rapt::bench
