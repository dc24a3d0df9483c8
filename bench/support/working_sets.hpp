// Chooses how much memory a benchmark uses, so that its data stay in one memory level: L1, L2, L3 or memory.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/topology.hpp"

namespace rapt::bench {

struct WorkingSet {
  std::string label;  // name of the memory level
  std::size_t bytes;  // of inputs and outputs together
};

// Returns one working set per memory level, nearest first: L1, L2, L3 (if there is one) and mem.
std::vector<WorkingSet> working_sets(const Topology &topology, bool quick);

}  // namespace rapt::bench
