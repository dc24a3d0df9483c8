// AMX: eight tiles per thread, their configuration, and the instructions on them.
#pragma once

#include "frame.hpp"
#include "instruction.hpp"

namespace rapt::emulate {

// Finds out whether the CPU executes the instructions on the configuration itself. A CPU with AMX traps on
// tile data alone while the process lacks the permission: the frame then holds the configuration.
void find_tile_configuration();

// False: the CPU would refuse the instruction too.
bool execute_tile(const Instruction &instruction, const Frame &frame);

}  // namespace rapt::emulate
