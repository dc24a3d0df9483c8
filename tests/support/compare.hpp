// Compares every usable level with the scalar one, bit for bit.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support/kernel_case.hpp"

namespace rapt::test {

// Describes the first difference, or returns an empty text if there is none.
std::string difference(const Outcome &got, const Outcome &expected, std::size_t element_size);

// Returns the layouts in which a problem is run.
using LayoutsOf = std::function<std::vector<Layout>(const Problem &)>;

struct Comparison {
  std::size_t calls = 0;              // calls that were compared with the reference
  std::size_t elements = 0;           // outputs of these calls
  std::vector<std::string> failures;  // the first few
};

// Runs every problem on the scalar level in the plain layout, which gives the expected bits. Then runs it on
// every usable level in each of the layouts.
Comparison compare_levels(const KernelCase &kernel, const std::vector<Problem> &problems,
                          const LayoutsOf &layouts);

// Runs every problem as a whole on the scalar level, then its rows one by one on every level.
Comparison compare_rows_alone(const KernelCase &kernel, const std::vector<Problem> &problems);

}  // namespace rapt::test
