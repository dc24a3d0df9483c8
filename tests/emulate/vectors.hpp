// Emulates AVX512-VNNI and AVX-VNNI on the frame's vector registers.
#pragma once

#include "frame.hpp"
#include "instruction.hpp"

namespace rapt::emulate {

// Returns false if the frame lacks the registers.
bool execute_vector(const Instruction &instruction, Frame &frame);

}  // namespace rapt::emulate
