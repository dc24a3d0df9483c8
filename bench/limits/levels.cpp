#include "limits/loops.hpp"

namespace rapt::bench {

// RAPT_LIMITS_ISAS: ISA(name) of each level, from the build.
#define ISA(name) extern "C" const LimitLoops rapt_bench_limits_##name;
RAPT_LIMITS_ISAS
#undef ISA

const LimitLoops *limit_loops(const std::string &isa) {
#define ISA(name) \
  if (isa == #name) return &rapt_bench_limits_##name;
  RAPT_LIMITS_ISAS
#undef ISA
  return nullptr;
}

}  // namespace rapt::bench
