// Prints the results as tables of text, at most 80 columns wide.
#pragma once

#include <vector>

#include "support/conditions.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// Times are medians of the repetitions, and ratios are ratios of medians. A limit is the best of the whole
// run.
void print_conditions(const Conditions &conditions, const Plan &plan);
void print_limits(const Plan &plan, const Limits &limits, const std::vector<Inversion> &inverted);
// Prints every kernel at every memory level.
void print_level_table(const Plan &plan, const std::vector<Case *> &cases);
// Prints the sizes that the level table does not show, in one table per kernel.
void print_shape_tables(const Plan &plan, const std::vector<Case *> &cases);
// Prints the errors of all implementations, and the fastest peer among the accurate ones.
void print_accuracy(const Plan &plan, const std::vector<Case *> &cases);
// Prints the spread of the repetitions.
void print_spread(const std::vector<Case *> &cases);

}  // namespace rapt::bench
