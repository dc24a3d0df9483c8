// The features that the program sees: those of a CPU model, and those that are emulated.
#pragma once

#include <cstdint>

#include "instruction.hpp"

namespace rapt::emulate {

// Reads RAPT_CPU_MODEL and RAPT_EMULATE. Exits with status 2 and a text if one has a name that is none.
void choose_features();

bool is_emulated(Feature feature);

// Whether CPUID itself does not tell what the program shall see.
bool must_present_features();

struct CpuidWords {
  std::uint32_t a, b, c, d;
};

// What the program sees in the leaf for which the CPU has the words `native`.
CpuidWords presented(std::uint32_t leaf, std::uint32_t subleaf, CpuidWords native);

CpuidWords read_cpuid(std::uint32_t leaf, std::uint32_t subleaf);

}  // namespace rapt::emulate
