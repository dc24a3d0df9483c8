// Finds the features of this CPU, and the features that its operating system enables.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dispatch/tuning.hpp"

namespace rapt {

enum class Feature : std::uint8_t {
#define FEATURE(feature, name) feature,
#include "dispatch/features.def"
  count
};

inline constexpr const char *feature_names[] = {
#define FEATURE(feature, name) name,
#include "dispatch/features.def"
};

class FeatureSet {
 public:
  constexpr FeatureSet() = default;
  template <class... F>
  constexpr explicit FeatureSet(F... features) : bits_((std::uint64_t{0} | ... | bit(features))) {}
  constexpr void add(Feature feature) { bits_ |= bit(feature); }
  constexpr FeatureSet operator|(FeatureSet other) const { return from(bits_ | other.bits_); }
  constexpr FeatureSet without(FeatureSet other) const { return from(bits_ & ~other.bits_); }
  constexpr bool contains(FeatureSet other) const { return (bits_ & other.bits_) == other.bits_; }
  constexpr bool contains(Feature feature) const { return (bits_ & bit(feature)) != 0; }

 private:
  static constexpr std::uint64_t bit(Feature feature) { return std::uint64_t{1} << unsigned(feature); }
  static constexpr FeatureSet from(std::uint64_t bits) {
    FeatureSet set;
    set.bits_ = bits;
    return set;
  }
  std::uint64_t bits_ = 0;
};

struct CpuFeatures {
  FeatureSet reported;  // by the CPU
  FeatureSet usable;    // the reported features whose registers the operating system saves
  Tuning tuning = Tuning::general;
};

CpuFeatures detect_features();

// Asks Linux to let this process use AMX's tiles. If Linux agrees, the state of each thread takes 8 KB more,
// and Linux refuses signal stacks that are too small for it.
bool request_tiles();

}  // namespace rapt
