// The calls of rapt_scan. They are made of the problems of reductions.
#pragma once

#include <cstddef>
#include <memory>

#include "calls/call.hpp"

namespace rapt::test {

// The dimension of a scan: the outermost that a reduction would reduce.
std::size_t axis_of(const ReduceProblem &problem);
bool is_product(const ReduceProblem &problem);
// Bounds the error of sum i in units, relative to the sum of the magnitudes.
inline double scan_bound(std::size_t i) { return 4 + static_cast<double>(i) / 16; }

// The results have the order of the elements of the problem.
std::unique_ptr<Call> make_scan(Element element, const Problem &problem, const Layout &layout);

}  // namespace rapt::test
