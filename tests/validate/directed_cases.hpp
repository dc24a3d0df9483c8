// Lists chosen cases: at least one for each rule of the numeric contract, and others for code paths of a
// kernel that random cases rarely reach.
#pragma once

#include <span>
#include <string>

namespace rapt::validate {

struct DirectedCase {
  const char *rule;     // the rule under test, in words
  const char *kernels;  // names in kernels.def; "softmax" means f32 and f64, "softmax_*" means every type
  const char *text;     // one problem in one layout, as parse_case() reads it
};

std::span<const DirectedCase> directed_cases();

// Returns cases for the code paths that a level chooses by sizes, alignment, options or values (coverage.py).
std::span<const DirectedCase> cases_of_ways();

// Returns whether the case applies to a kernel. For example, "softmax log_softmax" applies to "softmax_f32".
bool is_for(const DirectedCase &directed, const std::string &kernel);

}  // namespace rapt::validate
