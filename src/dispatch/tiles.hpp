// Declares how the kernels of the level amx ask for AMX's tiles, before the first kernel runs. These
// functions have C names, because each level is compiled in its own namespaces, which do not change C names.
#pragma once

#include "kernels/kernels.hpp"

extern "C" {

// Returns whether this process may use tiles. The first call asks Linux, and later calls get the same answer.
bool rapt_may_use_tiles();

// Returns the kernels of the level that amx builds on, which compute the same bits.
const rapt::KernelTable *rapt_kernels_without_tiles();
}
