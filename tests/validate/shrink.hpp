#pragma once

#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// Returns a smaller case that also fails: with fewer rows, columns and options, and a simpler layout.
test::Case shrink(const test::KernelCase &kernel, const std::string &isa, const test::Case &failing);

}  // namespace rapt::validate
