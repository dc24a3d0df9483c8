// Emulates AVX512-VNNI and AVX-VNNI on the vector registers in the signal frame.
#pragma once

#include "frame.hpp"
#include "instruction.hpp"

namespace rapt::emulate {

// Returns false if the frame does not hold the registers of the instruction.
bool execute_vector(const Instruction &instruction, Frame &frame);

}  // namespace rapt::emulate
