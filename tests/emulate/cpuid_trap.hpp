// Makes the program's cpuid instructions trap, so that the handler can show the program other features.
#pragma once

#include <signal.h>
#include <ucontext.h>

namespace rapt::emulate {

// There are two ways. Linux makes cpuid fault if the CPU can do that (arch_prctl ARCH_SET_CPUID, cpuid_fault
// in /proc/cpuinfo). Otherwise ud2 replaces the program's cpuid instructions. RAPT_CPUID_AT lists their
// addresses in the program's file, which run.sh reads from a disassembly. An empty list means that the
// program has none. Returns false if neither way is possible.
bool make_cpuid_trap();

// Handles the trap of a cpuid, and sets the registers to what the program should see. Returns false if
// another instruction trapped.
bool present_cpuid(int signal, const siginfo_t *info, ucontext_t *context);

}  // namespace rapt::emulate
