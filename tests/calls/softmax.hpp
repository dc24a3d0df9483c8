// The calls of softmax, log_softmax, logsumexp and softmax_backward.
#pragma once

#include <memory>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

enum class Rows { softmax, log_softmax, logsumexp };

// Defined for all float types, logsumexp and the gradient for float and double.
template <class T>
std::unique_ptr<Call> make_softmax(Rows function, const Problem &problem, const Layout &layout);
template <class T>
std::unique_ptr<Call> make_softmax_backward(const Problem &problem, const Layout &layout);

// They draw problems of up to about `most` elements.
Problem draw_softmax_problem(Random &random, std::size_t most);
Problem draw_softmax_backward_problem(Random &random, std::size_t most);

}  // namespace rapt::test
