// Under which conditions the numbers came about, and their record in the JSON.
#pragma once

#include <string>
#include <vector>

#include "support/scaling.hpp"
#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

struct Conditions {
  Topology topology;
  std::vector<std::string> skipped;  // each with its reason
  int repetitions = 0;
  double min_time = 0;  // seconds a repetition
  double load = -1;     // load average before the run; below 0 where unknown
  double clock = 0;     // GHz under the strongest instruction set, before the run
};

// Into Google Benchmark's "context".
void record_conditions(const Conditions &conditions, const Plan &plan);

// A JSON object of how the machine is when the last benchmark has run, and of what ran then.
std::string state_afterwards(const Plan &plan, const std::vector<ScalingRow> &scaling);

}  // namespace rapt::bench
