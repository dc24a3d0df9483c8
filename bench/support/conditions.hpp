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
  double min_time = 0;      // seconds a repetition
  double load = -1;         // load average before the run; below 0 where unknown
  double clock = 0;         // GHz under the strongest instruction set, before the run
  std::string environment;  // what is to be said of RAPT_ISA; empty where it is not set
};

// To be called before anything forces an instruction set.
std::string environment_isa();

// Into Google Benchmark's "context".
void record_conditions(const Conditions &conditions, const Plan &plan);

// A JSON object of what is known when the last benchmark has run: the best limits, what is not to be
// believed, the machine's state, and what ran on several threads.
std::string state_afterwards(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling);

}  // namespace rapt::bench
