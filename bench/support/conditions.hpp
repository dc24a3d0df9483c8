// Writes the conditions of a run, and the verdict on it, into the JSON.
#pragma once

#include <string>
#include <vector>

#include "support/scaling.hpp"
#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

struct Conditions {
  Topology topology;
  std::vector<std::string> skipped;  // instruction sets, each with the reason
  int repetitions = 0;
  double min_time = 0;   // seconds per repetition
  double load = -1;      // load average over the minute before the run; below 0 where unknown
  bool partial = false;  // of the benchmarks or instruction sets
};

// Adds the conditions and the state of the machine to the "context" of Google Benchmark's JSON.
void record_conditions(const Conditions &conditions, const Plan &plan);

// Returns a JSON object with what belongs to no row: the best limits, the doubtful cases, the times on several
// threads, the code that a level inherits, errors that are no numbers, and the conditions.
std::string state_afterwards(const Conditions &conditions, const Suite &suite,
                             const std::vector<Case *> &cases, const Scaling &scaling);

}  // namespace rapt::bench
