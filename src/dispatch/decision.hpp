// Computes which levels a process can run, and which level it begins with, from CPU features and RAPT_ISA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "dispatch/requirements.hpp"
#include "dispatch/tuning.hpp"
#include "rapt/rapt.h"

namespace rapt {

inline constexpr std::size_t all_levels = std::size(level_needs), no_level = all_levels;

constexpr std::size_t find_level(std::string_view name) {
  for (std::size_t i = 0; i < all_levels; ++i) {
    if (name == level_needs[i].name) return i;
  }
  return no_level;
}

// A Decision has the size and alignment of one word, so that one atomic store publishes it. Without the
// alignment, clang would call libatomic.
struct alignas(std::uint64_t) Decision {
  std::uint16_t usable = 0;            // one bit for each level; the first level's bit is always set
  std::uint8_t chosen = 0;             // the level to begin with
  std::uint8_t environment = RAPT_OK;  // the verdict on RAPT_ISA
  Tuning tuning = Tuning::general;
  std::uint8_t padding[3] = {};  // always 0, because a compare-exchange compares it too

  constexpr bool is_made() const { return usable != 0; }
  constexpr bool is_usable(std::size_t level) const { return (usable >> level) & 1; }
  constexpr std::size_t best() const {
    std::size_t level = all_levels - 1;
    while (!is_usable(level)) --level;
    return level;
  }
  constexpr rapt_status status_of(std::size_t level) const {
    if (level == no_level) return RAPT_BAD_ISA_NAME;
    return is_usable(level) ? RAPT_OK : RAPT_BAD_ISA_FOR_THIS_CPU;
  }
};
static_assert(all_levels <= 16 && RAPT_BAD_ISA_NAME < 256 && RAPT_BAD_ISA_FOR_THIS_CPU < 256);

// `wanted` is the value of RAPT_ISA, or null.
constexpr Decision decide(FeatureSet usable_features, const char *wanted) {
  Decision decision;
  for (std::size_t i = 0; i < all_levels; ++i) {
    if (usable_features.contains(level_needs[i].needs)) {
      decision.usable = static_cast<std::uint16_t>(decision.usable | 1u << i);
    }
  }
  std::size_t chosen = decision.best();
  if (wanted != nullptr && *wanted != 0) {
    const std::size_t found = find_level(wanted);
    decision.environment = static_cast<std::uint8_t>(decision.status_of(found));
    if (decision.environment == RAPT_OK) chosen = found;
  }
  decision.chosen = static_cast<std::uint8_t>(chosen);
  return decision;
}

}  // namespace rapt
