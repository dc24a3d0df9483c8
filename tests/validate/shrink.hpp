#pragma once

#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// A smaller case that fails too: fewer rows, fewer columns, fewer options, a simpler layout.
test::Case shrink(const test::KernelCase &kernel, const std::string &isa, const test::Case &failing);

}  // namespace rapt::validate
