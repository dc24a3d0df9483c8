// Chooses the features that the program sees: those of a CPU model, and emulated features.
#pragma once

#include <cstdint>

#include "instruction.hpp"

namespace rapt::emulate {

// Reads RAPT_CPU_MODEL and RAPT_EMULATE. Exits with status 2 and a message if either has an unknown name.
void choose_features();

bool is_emulated(Feature feature);

// Returns whether the program should see other features than CPUID reports.
bool must_present_features();

struct CpuidWords {
  std::uint32_t a, b, c, d;
};

// Returns what the program should see in a CPUID leaf where the CPU reports `native`.
CpuidWords presented(std::uint32_t leaf, std::uint32_t subleaf, CpuidWords native);

CpuidWords read_cpuid(std::uint32_t leaf, std::uint32_t subleaf);

}  // namespace rapt::emulate
