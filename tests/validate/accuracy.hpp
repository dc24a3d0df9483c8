// Measures how far results are from the exact values, in the units of rapt.h's promises.
//
// Exact values are computed in long double, with 64 bits of precision on x86-64 and 113 on AArch64 Linux.
// Where long double is double, f64 kernels are not measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/problem.hpp"

namespace rapt::validate {

struct Judgement {
  bool measured = false;
  double error = 0;  // in the kernel's unit
  double bound = 0;  // what rapt.h allows for this problem
};

struct Accuracy {
  const char *kernel;
  const char *unit;  // the unit of errors
  double bound;      // rapt.h's bound if scores are exact
  // `bits` holds the kernel's results for the whole problem. Results for which rapt.h promises no accuracy,
  // such as rows with NaN, are not measured. The returned bound applies to this problem.
  Judgement (*judge)(const test::Problem &problem, const std::vector<std::uint64_t> &bits);
};

// Returns a pointer that is not null if `kernel` is in kernels.def.
const Accuracy *accuracy_of(const std::string &kernel);

}  // namespace rapt::validate
