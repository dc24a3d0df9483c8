// Compares the results of every usable level with those of the scalar level, bit for bit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::test {

// Returns a description of the first difference, or an empty string if there is none.
std::string difference(const Outcome &got, const Outcome &expected, std::size_t element_size);

// Returns the layouts in which to run a problem.
using LayoutsOf = std::function<std::vector<Layout>(const Problem &)>;

struct Comparison {
  std::size_t calls = 0;              // calls compared with the scalar level's result
  std::size_t elements = 0;           // number of outputs of all these calls
  std::vector<std::string> failures;  // descriptions of the first failures
};

// Runs every problem on the scalar level in the plain layout to get the expected bits. Then runs it on every
// usable level in each of the layouts.
Comparison compare_levels(const KernelCase &kernel, const std::vector<Problem> &problems,
                          const LayoutsOf &layouts);

// Runs all rows of a problem in one scalar call, then each row in a separate call on every usable level.
Comparison compare_rows_alone(const KernelCase &kernel, const std::vector<Problem> &problems);

}  // namespace rapt::test
