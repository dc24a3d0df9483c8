// The calls of adamw_step and sgd_step, and the numbers that they have.
#pragma once

#include <memory>
#include <vector>

#include "calls/call.hpp"

namespace rapt::test {

// Holds the arrays as f32; those of 16 bits are numbers of their type. The seed chooses types, rates and options.
template <class Options>
struct OptimizerNumbers {
  Options options{};
  std::vector<float> param, grad, average, squares, most;  // `most` is empty without amsgrad
  bool has_state = true;
};

using AdamwNumbers = OptimizerNumbers<rapt_adamw_options>;
using SgdNumbers = OptimizerNumbers<rapt_sgd_options>;
AdamwNumbers make_adamw_numbers(const Problem &problem);
SgdNumbers make_sgd_numbers(const Problem &problem);

std::unique_ptr<Call> make_adamw_step(const Problem &problem, const Layout &layout);
std::unique_ptr<Call> make_sgd_step(const Problem &problem, const Layout &layout);

}  // namespace rapt::test
