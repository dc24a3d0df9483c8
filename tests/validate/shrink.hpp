#pragma once

#include <string>

#include "support/kernel_case.hpp"
#include "validate/case_text.hpp"

namespace rapt::validate {

// The smallest failing case that is found from a failing one: fewer rows, fewer columns, fewer options, a
// simpler layout.
Case shrink(const test::KernelCase &kernel, const std::string &isa, const Case &failing);

}  // namespace rapt::validate
