#include "limits/kernels.hpp"

namespace rapt::bench {

// RAPT_LIMITS_ISAS: ISA(name) of each level, from the build.
#define ISA(name) extern const LimitKernels limits_##name;
RAPT_LIMITS_ISAS
#undef ISA

const LimitKernels *limit_kernels(const std::string &isa) {
#define ISA(name) \
  if (isa == #name) return &limits_##name;
  RAPT_LIMITS_ISAS
#undef ISA
  return nullptr;
}

}  // namespace rapt::bench
