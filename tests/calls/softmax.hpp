// The calls of softmax, log_softmax, logsumexp and the gradients of the first two.
#pragma once

#include <memory>
#include <vector>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

enum class Rows { softmax, log_softmax, logsumexp };
enum class RowGradient { softmax, log_softmax };

// Defined for all float types, logsumexp for float and double.
template <class T>
std::unique_ptr<Call> make_softmax(Rows function, const Problem &problem, const Layout &layout);
template <class T>
std::unique_ptr<Call> make_softmax_backward(RowGradient function, const Problem &problem,
                                            const Layout &layout);

// Makes numbers like those of log_softmax of the probabilities that a problem has: finite ones are 0 to -16, and +inf
// is -inf.
template <class T>
std::vector<T> like_logarithms(std::vector<T> y) {
  for (T &element : y)
    element = static_cast<T>(static_cast<Number<T>>(static_cast<Number<T>>(element) * -16));
  return y;
}

// They draw problems of up to about `most` elements.
Problem draw_softmax_problem(Random &random, std::size_t most);
Problem draw_softmax_backward_problem(Random &random, std::size_t most);

}  // namespace rapt::test
