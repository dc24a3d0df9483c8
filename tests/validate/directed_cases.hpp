// Chosen cases, one or more for each rule of the numeric contract that random cases reach by luck alone.
#pragma once

#include <span>
#include <string>

namespace rapt::validate {

struct DirectedCase {
  const char *rule;     // in words
  const char *kernels;  // of kernels.def, without their types
  const char *text;     // as parse_case takes it: one problem in one layout
};

std::span<const DirectedCase> directed_cases();

// "softmax_f32" is a kernel of "softmax log_softmax".
bool is_for(const DirectedCase &directed, const std::string &kernel);

}  // namespace rapt::validate
