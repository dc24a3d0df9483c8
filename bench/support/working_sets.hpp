// How much memory a benchmark goes through, so that it runs from one level of the memory hierarchy.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/topology.hpp"

namespace rapt::bench {

// A size that is given by the memory a call goes through, inputs and outputs together.
struct WorkingSet {
  std::string label;
  std::size_t bytes;
  std::size_t misalignment = 0;  // of every buffer, in bytes
};

// One for each of L1, L2, L3 (if there is one) and mem, in that order.
std::vector<WorkingSet> memory_levels(const Topology &topology, bool quick);

}  // namespace rapt::bench
