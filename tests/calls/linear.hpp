// The calls of rapt_linear: with float weights, and with quantized ones.
#pragma once

#include <memory>

#include "calls/call.hpp"

namespace rapt::test {

// The results are [rows][outputs]. W is the type of the weights; the problem may have other types of x and y. Defined
// for all float types.
template <class W>
std::unique_ptr<Call> make_linear_call(const Problem &problem, const Layout &layout,
                                       rapt_arithmetic arithmetic);
std::unique_ptr<Call> make_quantized_call(const Problem &problem, const Layout &layout,
                                          rapt_arithmetic arithmetic);

}  // namespace rapt::test
