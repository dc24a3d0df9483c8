// Attention and its gradient on more threads: OpenMP over their tasks, as a program would use them.
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
  double seconds;   // wall time, the best of several calls
  double speed_up;  // over one thread
};

struct Scaling {
  std::vector<ScalingRow> rows;
  double load = 0;  // CPUs that others kept busy meanwhile; NaN where unknown
};

// Doubles the threads from one up to one per CPU of the process. Empty in a build without OpenMP, and where
// the filter of the plan does not match attention_f32/isa/scaling.
Scaling measure_scaling(const Plan &plan, const Topology &topology);

void print_scaling(const Scaling &scaling);

}  // namespace rapt::bench
