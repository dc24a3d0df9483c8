// The levels compiled in, weakest first.
#pragma once

#include <span>

#include "dispatch/cpu.hpp"
#include "kernels/kernels.hpp"

namespace rapt {

struct Level {
  const char *name;
  const KernelTable *kernels;
  FeatureSet needs;  // every feature that the level's compiler flags let the compiler use
};

std::span<const Level> levels();

}  // namespace rapt
