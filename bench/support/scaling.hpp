// How attention's tasks go with more threads: OpenMP over rapt_attention_tasks, which is how the library is
// meant to be used by several.
#pragma once

#include <string>
#include <vector>

#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

struct ScalingRow {
  std::string size;
  std::string isa;
  int threads;
  double seconds;   // wall time, the best of several
  double speed_up;  // over one thread
};

struct Scaling {
  std::vector<ScalingRow> rows;
  double load = 0;  // CPUs that others kept busy meanwhile; NaN where unknown
};

// From one thread to one on each CPU of the process, by doubling. Empty in a build without OpenMP, and where
// the plan's filter does not match attention_f32/isa/scaling.
Scaling measure_scaling(const Plan &plan, const Topology &topology);

void print_scaling(const Scaling &scaling);

}  // namespace rapt::bench
