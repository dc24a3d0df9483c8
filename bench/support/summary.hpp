// The results for a person: at most 100 columns.
#pragma once

#include <string>
#include <vector>

#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

// Under which conditions the numbers came about.
struct Conditions {
  Topology topology;
  std::vector<std::string> isas;
  std::vector<std::string> skipped;  // each with its reason
  int repetitions = 0;
  double min_time = 0;  // seconds a repetition
  double load = -1;     // load average before the run; below 0 where unknown
};

std::string size_text(std::size_t bytes);

void print_conditions(const Conditions &conditions, const Plan &plan);
// Every kernel at every level of the memory hierarchy.
void print_level_table(const Plan &plan, const std::vector<Case> &cases);
// The other sizes.
void print_shape_table(const Plan &plan, const std::vector<Case> &cases);

}  // namespace rapt::bench
