// Returns chosen cases, one or more for each rule of the numeric contract. Others are for the ways of a
// kernel that random cases reach only by luck.
#pragma once

#include <span>
#include <string>

namespace rapt::validate {

struct DirectedCase {
  const char *rule;     // in words
  const char *kernels;  // of kernels.def; "softmax" is that of f32 and f64, "softmax_*" that of every type
  const char *text;     // as parse_case takes it: one problem in one layout
};

std::span<const DirectedCase> directed_cases();

// Returns cases for the ways that the code of a level chooses by sizes, alignment, options or values
// (coverage.py).
std::span<const DirectedCase> cases_of_ways();

// Returns whether the case is for a kernel. For example, a case for "softmax log_softmax" is for
// "softmax_f32".
bool is_for(const DirectedCase &directed, const std::string &kernel);

}  // namespace rapt::validate
