// Lists the compiled levels, weakest first, and the CPU features that each level needs: all features that its
// compiler flags enable. cmake/isa.cmake writes rapt_levels.def, which has a row LEVEL(name, base,
// features...) for each.
#pragma once

#include "dispatch/cpu.hpp"

namespace rapt {

struct LevelNeeds {
  const char *name;
  const char *base;  // the level whose kernels this one uses where it has none; empty for the first
  FeatureSet needs;
};

inline constexpr LevelNeeds level_needs[] = {
#define LEVEL(name, base, ...) {#name, #base, FeatureSet(__VA_ARGS__)},
#include "rapt_levels.def"
#undef LEVEL
};

}  // namespace rapt
