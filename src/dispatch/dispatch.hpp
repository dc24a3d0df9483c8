// Gives access to the kernels of the active level.
#pragma once

#include <atomic>

#include "contract/processor.hpp"
#include "kernels/kernels.hpp"

namespace rapt {

// At first, active_kernels points to stand-ins. The first call of a stand-in chooses a level, and sets
// active_kernels to that level's table. So a call needs one load and one indirect call, and never tests
// whether a level was chosen.
#if defined(_WIN32)  // a DLL exports only what dllexport marks
extern std::atomic<const KernelTable *> active_kernels;
#else
[[gnu::visibility("hidden")]] extern std::atomic<const KernelTable *> active_kernels;
#endif

inline const KernelTable &kernels() { return *active_kernels.load(std::memory_order_acquire); }

// Returns the text of RAPT_BAD_ISA_FOR_THIS_CPU, with the levels that this CPU can run.
const char *unusable_isa_text();

}  // namespace rapt
