// The calls of functions over vectors: dot, dot_rows, scale, exp, exp_sum, activations and their gradients, gated,
// expert_sum, argmax and conversions.
#pragma once

#include <memory>

#include "calls/call.hpp"
#include "support/random.hpp"

namespace rapt::test {

enum class Vectors {
  dot,
  dot_rows,
  scale,
  exp,
  exp_sum,
  silu,
  gelu,
  gelu_tanh,
  silu_backward,
  gelu_backward,
  gelu_tanh_backward,
  gated,
  gated_backward,
  expert_sum,
  argmax,
  to_f32,
  from_f32,
};

// Defined for the types that the function has. Those of from_f32 are the types of its results.
template <class T>
std::unique_ptr<Call> make_vectors(Vectors function, const Problem &problem, const Layout &layout);

// They draw problems of up to about `most` elements.
Problem draw_vector_problem(Random &random, std::size_t most);
Problem draw_dot_rows_problem(Random &random, std::size_t most);

}  // namespace rapt::test
