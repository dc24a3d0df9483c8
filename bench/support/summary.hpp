// The results as tables of text, at most 80 columns wide.
#pragma once

#include <vector>

#include "support/conditions.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// Times, and the ratios of times, are medians of the repetitions; a limit is the best of the whole run.
void print_conditions(const Conditions &conditions, const Plan &plan);
void print_limits(const Plan &plan, const Limits &limits, const std::vector<Inversion> &inverted);
// Every kernel at every memory level.
void print_level_table(const Plan &plan, const std::vector<Case *> &cases);
// The other sizes, one table per kernel.
void print_shape_tables(const Plan &plan, const std::vector<Case *> &cases);
// The errors of all implementations, and the fastest peer among the accurate ones.
void print_accuracy(const Plan &plan, const std::vector<Case *> &cases);
// How far apart the repetitions were.
void print_spread(const std::vector<Case *> &cases);

}  // namespace rapt::bench
