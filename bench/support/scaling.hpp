// Measures attention and its gradient on several threads, using the adapters of rapt/parallel.hpp.
#pragma once

#include <string>
#include <vector>

#include "support/suite.hpp"
#include "support/topology.hpp"

namespace rapt::bench {

struct ScalingRow {
  std::string size;
  std::string isa;
  std::string adapter;  // "std::thread", "OpenMP", "oneTBB"
  int threads;
  double seconds;   // wall time, the best of many calls
  double speed_up;  // over the plain call, which has neither adapter nor tasks
};

using Scaling = std::vector<ScalingRow>;

// Measures 1, 2, 4, ... threads, up to one thread per CPU of the process. Returns no rows on the scalar
// level, or if the plan's filter does not match attention_f32/isa/scaling.
Scaling measure_scaling(const Plan &plan, const Topology &topology);

}  // namespace rapt::bench
