// The compiled levels, weakest first, and the features that each needs: all that its flags let the compiler
// use. cmake/isa.cmake writes rapt_levels.def, which has a row LEVEL(name, base, features...) for each.
#pragma once

#include "dispatch/cpu.hpp"

namespace rapt {

struct LevelNeeds {
  const char *name;
  const char *base;  // the level that has the kernels that this one lacks; empty for the first
  FeatureSet needs;
};

inline constexpr LevelNeeds level_needs[] = {
#define LEVEL(name, base, ...) {#name, #base, FeatureSet(__VA_ARGS__)},
#include "rapt_levels.def"
#undef LEVEL
};

}  // namespace rapt
