// Reports the conditions of a run and the verdict on the run, on the terminal and in the JSON.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "support/scaling.hpp"
#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

struct Conditions {
  Topology topology;
  std::vector<std::string> skipped;  // instruction sets, each with the reason
  int repetitions = 0;
  double min_time = 0;  // seconds per repetition
  double load = -1;     // load average over the minute before the run; below 0 where unknown
};

// Adds the conditions and the state of the machine to the "context" of Google Benchmark's JSON.
void record_conditions(const Conditions &conditions, const Plan &plan);

struct Verdict {
  std::size_t rows = 0;
  std::size_t marked = 0;
  // Lists what disturbed the run, and how often. The list is empty if nothing disturbed the run.
  std::vector<std::pair<Rule, std::size_t>> reasons;
};

// Call verdict_of() only after Suite::conclude().
Verdict verdict_of(const Suite &suite, const std::vector<Case *> &cases);
void print_verdict(const Verdict &verdict, const std::vector<Inversion> &inverted_limits);

// Returns a JSON object with results of the whole run: the best limits, the doubtful cases, and the times on
// several threads.
std::string state_afterwards(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling);

}  // namespace rapt::bench
