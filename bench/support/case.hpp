// Defines a case, which is a benchmark of one implementation with its results, and the plan of a run.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "support/disturbance.hpp"
#include "support/limits.hpp"
#include "support/work.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {

struct Case {
  std::string name;  // kernel/implementation/size
  std::string kernel;
  std::string implementation;  // the level, "avx2", or a peer, "sleef-avx2"
  std::string isa;
  std::string size;
  Work work;
  bool is_peer = false;
  std::string served_by;  // the level whose code runs: a lower one if `isa` inherits the kernel

  // Results of the run.
  std::vector<double> seconds;      // CPU time per call, by repetition
  double wall_over_cpu = 1;         // wall time over CPU time, of all repetitions
  Bound beside;                     // with the limits measured just before and after
  Bound bound;                      // with the best limits of the whole run
  std::vector<std::string> doubts;  // names of the rules in disturbance.hpp that are broken
  std::optional<double> error;      // in the unit of accuracy.hpp; empty if not measured

  bool measured() const { return !seconds.empty(); }
  double best() const;
  double median() const;
  double spread() const { return quartile_spread(seconds); }
  double share() const { return bound.seconds / median(); }  // 1: as fast as the machine allows
  // Returns whether the limit is known and plausible. A time well below the limit shows that the limit is
  // wrong.
  bool has_share() const { return bound.seconds > 0 && share() <= inaccuracy_of_limits; }
};

// Returns the observation that the rules of disturbance.hpp judge. `limit` is computed from the best rates of
// the case's own level. The case's bound may come from a weaker level.
Observation observation_of(const Case &one, double limit);

// Describes the measurements that the command line asks for and that the machine can make.
struct Plan {
  std::vector<WorkingSet> working_sets;  // one per memory level
  std::vector<std::string> isas;
  std::optional<std::regex> filter;
  bool quick = false;
  bool peers = false;
};

}  // namespace rapt::bench
