// The features that a level needs: all those that its compiler flags in cmake/isa.cmake let the compiler use.
// Change both together.
#pragma once

#include "dispatch/cpu.hpp"

namespace rapt {

inline constexpr FeatureSet scalar_needs;
inline constexpr FeatureSet avx2_needs(Feature::sse3, Feature::ssse3, Feature::sse4_1, Feature::sse4_2,
                                       Feature::popcnt, Feature::cx16, Feature::lahf, Feature::movbe,
                                       Feature::lzcnt, Feature::bmi1, Feature::bmi2, Feature::f16c,
                                       Feature::fma, Feature::avx, Feature::avx2);
inline constexpr FeatureSet avx512_needs =
    avx2_needs |
    FeatureSet(Feature::avx512f, Feature::avx512bw, Feature::avx512cd, Feature::avx512dq, Feature::avx512vl);
inline constexpr FeatureSet neon_needs(Feature::asimd);

struct LevelNeeds {
  const char *name;
  FeatureSet needs;
};

// Of the levels that are compiled in, weakest first. cmake/isa.cmake decides which, and defines RAPT_LEVELS
// as LEVEL(scalar) LEVEL(avx2) and so on.
inline constexpr LevelNeeds level_needs[] = {
#define LEVEL(name) {#name, name##_needs},
    RAPT_LEVELS
#undef LEVEL
};

}  // namespace rapt
