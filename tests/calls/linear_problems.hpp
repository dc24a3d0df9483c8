// Makes problems of linear layers.
#pragma once

#include <vector>

#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws random shapes and options. `most_work` limits the number of multiplications.
Problem draw_linear_problem(Random &random, std::size_t most_work);
// The same for layers with quantized weights. Some options belong to one arithmetic.
Problem draw_quantized_problem(Random &random, std::size_t most_work, bool in_i8);

// Gives some layers numbers of 8 bits, scales that outputs share, and scales of outputs. Older draws stay as they are.
Problem with_later_options(Random &random, Problem problem, bool in_i8);

// Gives a layer integers of RAPT_U8, and mostly zeros.
Problem in_unsigned_bytes(Random &random, Problem problem);

// Returns problems with every small number of rows, and inputs and outputs around the ends of vectors, blocks
// of outputs and groups of inputs.
std::vector<Problem> linear_of_shapes(std::size_t step);

}  // namespace rapt::test
