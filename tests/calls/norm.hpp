// The calls of rms_norm, layer_norm and their gradients.
#pragma once

#include <memory>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

enum class Norm { rms, layer, rms_backward, layer_backward };

// Holds what the call computes with, for all rows. The gradients of weight and bias begin with those arrays' values.
template <class T>
struct NormValues {
  std::vector<T> x, second;  // the residual, or dy
  std::vector<T> weight, bias;
};
template <class T>
NormValues<T> make_norm_values(const Problem &problem);

std::unique_ptr<Call> make_norm(Norm function, Element element, const Problem &problem, const Layout &layout);

// Draws a problem of up to about `most` elements.
Problem draw_norm_problem(Random &random, std::size_t most);

}  // namespace rapt::test
