// Makes cpuid instructions trap, so that a signal handler can show the program other CPU features.
#pragma once

#include <signal.h>
#include <ucontext.h>

namespace rapt::emulate {

// Uses one of two ways. If the CPU allows it, Linux makes cpuid fault (arch_prctl ARCH_SET_CPUID, cpuid_fault
// in /proc/cpuinfo). Otherwise ud2 replaces the program's cpuid instructions, whose addresses are in
// RAPT_CPUID_AT. run.sh gets them from a disassembly; an empty list means that there are none. Returns false
// if neither way works.
bool make_cpuid_trap();

// Handles a trapped cpuid: sets the registers to what the program should see. Returns false if another
// instruction trapped.
bool present_cpuid(int signal, const siginfo_t *info, ucontext_t *context);

}  // namespace rapt::emulate
