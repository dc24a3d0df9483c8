// Makes problems of rope.
#pragma once

#include <vector>

#include "support/problem.hpp"
#include "support/random.hpp"

namespace rapt::test {

// Draws random shapes and options. `most_work` limits the number of elements.
Problem draw_rope_problem(Random &random, std::size_t most_work);

// Returns problems with every number of pairs up to 66, all in both layouts, and longer heads.
std::vector<Problem> rope_of_shapes(std::size_t step);

}  // namespace rapt::test
