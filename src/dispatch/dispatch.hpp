// The kernels that are in use now.
#pragma once

#include <atomic>

#include "contract/processor.hpp"
#include "kernels/kernels.hpp"

namespace rapt {

// At first this points at stand-ins, which choose a level when one of them is called. Then it points at the
// chosen level's table. So a caller pays one load and one indirect call, and never tests whether the choice
// was made.
#if defined(_WIN32)  // its DLLs export only what dllexport marks
extern std::atomic<const KernelTable *> active_kernels;
#else
[[gnu::visibility("hidden")]] extern std::atomic<const KernelTable *> active_kernels;
#endif

inline const KernelTable &kernels() { return *active_kernels.load(std::memory_order_acquire); }

// Returns the text of RAPT_BAD_ISA_FOR_THIS_CPU, with the levels that this CPU can run.
const char *unusable_isa_text();

}  // namespace rapt
