// The list of kernels, each with a driver that runs one problem through the public API.
#pragma once

#include <span>

#include "support/problem.hpp"
#include "support/problem_data.hpp"

namespace rapt::test {

struct KernelTraits {
  std::size_t element_size = 0;
  Operands operands = Operands::vector;
  int inputs = 0;         // main inputs, without those that options bring
  int aliases = 0;        // how many of them the output may be
  bool has_rows = false;  // a batch of rows; else one vector
  bool takes_options = false;
  bool is_dot_rows = false;  // any row stride
  bool has_output = true;    // writes memory; else only returns a value
  bool is_attention = false;
  bool is_attention_backward = false;  // besides
};

struct KernelCase {
  const char *name;  // as in kernels.def
  KernelTraits traits;
  Outcome (*run)(const Problem &problem, const Layout &layout);  // on the level that is active
};

// One entry for each line of kernels.def, in that order.
std::span<const KernelCase> kernel_cases();

}  // namespace rapt::test
