// The conditions of the run, and their record in the JSON.
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
  double min_time = 0;      // seconds per repetition
  double load = -1;         // load average before the run; below 0 where unknown
  double clock = 0;         // GHz under the strongest instruction set, before the run
  std::string environment;  // the effect of RAPT_ISA; empty where it is not set
};

// Describes the effect of RAPT_ISA. Call it before anything forces an instruction set.
std::string environment_isa();

// Adds them to the "context" of Google Benchmark's JSON.
void record_conditions(const Conditions &conditions, const Plan &plan);

// A JSON object with the results of the whole run: the best limits, the doubts, the state of the machine, and
// the times on several threads.
std::string state_afterwards(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling);

}  // namespace rapt::bench
