// Makes the program's cpuid instructions trap, so that it can be shown other features.
#pragma once

#include <signal.h>
#include <ucontext.h>

namespace rapt::emulate {

// There are two ways. Linux makes cpuid fault if the CPU can (arch_prctl ARCH_SET_CPUID, cpuid_fault of
// /proc/cpuinfo). Otherwise ud2 replaces the instructions of the program that RAPT_CPUID_AT lists: their
// addresses in its file, which run.sh reads from its disassembly (an empty list: the program has none).
// Returns false if neither is possible.
bool make_cpuid_trap();

// Handles the trap of a cpuid: the registers get what the program should see. Returns false if another
// instruction trapped.
bool present_cpuid(int signal, const siginfo_t *info, ucontext_t *context);

}  // namespace rapt::emulate
