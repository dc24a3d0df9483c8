// Runs one problem of rope through the public API. The layout says where the tensors are and how the work is
// split into calls.
#pragma once

#include "support/problem.hpp"

namespace rapt::test {

// The outcome has [batch][heads][tokens][columns] results. Without a pair to turn there is no call and no
// result. Defined for all float types.
template <class T>
Outcome run_rope(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
