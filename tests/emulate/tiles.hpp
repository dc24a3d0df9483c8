// Emulates AMX: eight tiles per thread, their configuration, and the instructions that use them.
#pragma once

#include "frame.hpp"
#include "instruction.hpp"

namespace rapt::emulate {

// Finds out whether the CPU itself executes the instructions that configure tiles. A CPU with AMX traps only
// on tile data, while the process lacks the permission. The signal frame then holds the configuration.
void find_tile_configuration();

// Returns false if the instruction is illegal on a CPU with AMX too.
bool execute_tile(const Instruction &instruction, const Frame &frame);

}  // namespace rapt::emulate
