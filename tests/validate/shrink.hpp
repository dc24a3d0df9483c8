#pragma once

#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// The smallest failing case that is found from a failing one: fewer rows, fewer columns, fewer options, a
// simpler layout.
test::Case shrink(const test::KernelCase &kernel, const std::string &isa, const test::Case &failing);

}  // namespace rapt::validate
