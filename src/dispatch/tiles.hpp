// The kernels of the level amx ask for AMX's tiles when they are about to run the first one. The names are
// C's: a level's own namespaces do not change them.
#pragma once

#include "kernels/kernels.hpp"

extern "C" {

// Whether this process may use tiles. The first call asks Linux, and its answer stays.
bool rapt_may_use_tiles();

// The kernels of the level that amx builds on, which compute the same bits.
const rapt::KernelTable *rapt_kernels_without_tiles();
}
