// Runs one problem of a linear layer through the public API. The layout says where the matrices are and how
// the work is split into calls.
#pragma once

#include "rapt/rapt.h"
#include "support/problem.hpp"

namespace rapt::test {

// The outcome has [rows][outputs] results. W is the type of the weights; the problem may have other types of
// x and y. Defined for all float types.
template <class W>
Outcome run_linear(const Problem &problem, const Layout &layout, rapt_arithmetic arithmetic);

}  // namespace rapt::test
