// Makes the program's cpuid instructions trap, so that it can be shown other features.
#pragma once

#include <signal.h>
#include <ucontext.h>

namespace rapt::emulate {

// In two ways: Linux makes cpuid fault where the CPU can (arch_prctl ARCH_SET_CPUID, cpuid_fault of
// /proc/cpuinfo). Elsewhere ud2 replaces the instructions of the program that RAPT_CPUID_AT lists: their
// addresses in its file, which run.sh reads from its disassembly (an empty list: the program has none).
// False: neither can be had.
bool make_cpuid_trap();

// Handles the trap of a cpuid: the registers get what the program shall see. False: it was another
// instruction's.
bool present_cpuid(int signal, const siginfo_t *info, ucontext_t *context);

}  // namespace rapt::emulate
