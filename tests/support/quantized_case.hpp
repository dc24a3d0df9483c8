// Runs one problem of a linear layer with quantized weights through the public API. The layout says where the
// matrices are and how the work is split into calls.
#pragma once

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

// The outcome has [rows][outputs] results.
Outcome run_quantized_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic);

}  // namespace rapt::test
