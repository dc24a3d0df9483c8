// Computes the features of an x86-64 CPU from the answers of the CPU and of its operating system. cpu.cpp
// passes in the machine that runs; tests pass in made-up machines.
#pragma once

#include <cstdint>

#include "dispatch/cpu.hpp"

namespace rapt {

// Holds the four registers that CPUID returns.
struct CpuidLeaf {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

// Returns whether palette 1 of AMX has eight tiles of 16 rows of 64 bytes. Some hypervisors show AMX's
// feature bits without leaf 0x1D; an AMX instruction is then illegal.
constexpr bool describes_tiles(const CpuidLeaf &palettes, const CpuidLeaf &palette_1) {
  constexpr std::uint32_t bytes = 8192, bytes_per_tile = 1024, bytes_per_row = 64, tiles = 8, rows = 16;
  return palettes.a >= 1 && palette_1.a == (bytes | bytes_per_tile << 16) &&
         palette_1.b == (bytes_per_row | tiles << 16) && (palette_1.c & 0xffff) == rows;
}

// The model is ignored, because hypervisors hide it.
constexpr Tuning tuning_of(const CpuidLeaf &leaf_0, const CpuidLeaf &leaf_1) {
  const bool amd =
      leaf_0.b == 0x68747541 && leaf_0.d == 0x69746e65 && leaf_0.c == 0x444d4163;  // AuthenticAMD
  const std::uint32_t family = (leaf_1.a >> 8 & 0xf) + (leaf_1.a >> 20 & 0xff);
  if (!amd) return Tuning::general;
  return family == 25 ? Tuning::zen4 : family == 26 ? Tuning::zen5 : Tuning::general;
}

// A Machine has these functions:
//
//   cpuid(leaf, subleaf)   returns the four words of a leaf; called only for leaves that the CPU has
//   xcr0()                 returns the registers that the operating system saves; called only where xgetbv is
//                          legal
//   offers_tiles()         returns whether the operating system lets a process ask for tiles
template <class Machine>
constexpr CpuFeatures features_of(Machine &&machine) {
  // A leaf beyond the last one has the words of another leaf on Intel's CPUs.
  const CpuidLeaf leaf_0 = machine.cpuid(0, 0);
  const std::uint32_t last = leaf_0.a, last_extended = machine.cpuid(0x80000000, 0).a;
  const auto leaf = [&](std::uint32_t number, std::uint32_t subleaf = 0) -> CpuidLeaf {
    if (number > (number >= 0x80000000 ? last_extended : last)) return {};
    return machine.cpuid(number, subleaf);
  };
  const CpuidLeaf leaf_1 = leaf(1), leaf_7 = leaf(7), leaf_7_1 = leaf_7.a >= 1 ? leaf(7, 1) : CpuidLeaf{},
                  extended_1 = leaf(0x80000001);
  const bool osxsave = (leaf_1.c >> 27) & 1, amx_tile = (leaf_7.d >> 24) & 1;
  const std::uint64_t xcr0 = osxsave ? machine.xcr0() : 0;
  constexpr bool none = true;
  const bool ymm = (xcr0 & 0x06) == 0x06;
  const bool zmm = (xcr0 & 0xe6) == 0xe6;
  const bool tiles =
      osxsave && amx_tile && describes_tiles(leaf(0x1d), leaf(0x1d, 1)) && machine.offers_tiles();
  CpuFeatures features;
  features.tuning = tuning_of(leaf_0, leaf_1);
#define X86_FEATURE(feature, name, macro, word, bit, state) \
  if ((word >> bit) & 1) {                                  \
    features.reported.add(Feature::feature);                \
    if (state) features.usable.add(Feature::feature);       \
  }
#include "dispatch/features.def"
  return features;
}

}  // namespace rapt
