// Measures how far results are from the truth, in the units in which rapt.h promises accuracy.
//
// The truth is computed in long double: 64 bits of precision on x86-64, 113 on AArch64 Linux. f64 kernels are
// not measured where long double is double.
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
  const char *unit;  // of errors
  double bound;      // rapt.h's, where scores are not rounded
  // `bits` are the results of the kernel for the whole problem. Results without a promise in rapt.h, such as
  // rows with NaN, are not measured. The returned bound is the one that applies to the problem.
  Judgement (*judge)(const test::Problem &problem, const std::vector<std::uint64_t> &bits);
};

// Returns a pointer that is never null for a name of kernels.def.
const Accuracy *accuracy_of(const std::string &kernel);

}  // namespace rapt::validate
