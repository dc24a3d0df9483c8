// The results for a person: at most 80 columns.
#pragma once

#include <vector>

#include "support/conditions.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// All times are medians of the repetitions, and so are all ratios; a limit is the best of the whole run.
void print_conditions(const Conditions &conditions, const Plan &plan);
void print_limits(const Plan &plan, const Limits &limits, const std::vector<Inversion> &inverted);
// Every kernel at every level of the memory hierarchy.
void print_level_table(const Plan &plan, const std::vector<Case *> &cases);
// The other sizes, a table a kernel.
void print_shape_tables(const Plan &plan, const std::vector<Case *> &cases);
// The errors of all implementations, and which peer is the fastest of the accurate ones.
void print_accuracy(const Plan &plan, const std::vector<Case *> &cases);
// How far apart the repetitions were.
void print_spread(const std::vector<Case *> &cases);

}  // namespace rapt::bench
