// The levels compiled in, weakest first.
#pragma once

#include <cstddef>

#include "dispatch/cpu.hpp"
#include "kernels/kernels.hpp"

namespace rapt {

struct Level {
  const char *name;
  const KernelTable *const *parts;  // ends with null
  FeatureSet needs;
};

std::size_t level_count();
Level level(std::size_t index);

}  // namespace rapt
