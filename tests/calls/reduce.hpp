// The calls of rapt_reduce.
#pragma once

#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

// The results are the outputs, in row-major order of the dimensions that are kept, and then their means.
std::unique_ptr<Call> make_reduce(Element element, const Problem &problem, const Layout &layout);

// Gives a tensor the strides of an order of its dimensions, with a gap behind each row of the innermost. With columns,
// the first dimension is the one whose elements lie side by side.
void put_in_order(Operand &tensor, MatrixOrder order, std::ptrdiff_t gap);

// Returns the elements of each output, in their order. `x` has those of the problem.
template <class T>
std::vector<std::vector<T>> elements_of_outputs(const ReduceProblem &problem, const std::vector<T> &x);

// Draws a problem of up to about `most` elements.
Problem draw_reduce_problem(Random &random, std::size_t most);

// Returns problems that go through every operation over rows, columns and all that lies between, and some that are
// longer than a stretch of sums.
std::vector<Problem> reductions_of_shapes();

}  // namespace rapt::test
