#include "limits/loops.hpp"

namespace rapt::bench {

#define LEVEL(name, ...) extern "C" const LimitLoops rapt_bench_limits_##name;
#include "rapt_levels.def"
#undef LEVEL

const LimitLoops *limit_loops(const std::string &isa) {
#define LEVEL(name, ...) \
  if (isa == #name) return &rapt_bench_limits_##name;
#include "rapt_levels.def"
#undef LEVEL
  return nullptr;
}

}  // namespace rapt::bench
