// Reports a crash of a kernel as a failure of a case, so that the program continues.
#pragma once

#include <cstddef>
#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// Installs handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP.
void catch_crashes();

// Calls kernel.run(). If it crashes, the fault of the outcome describes the crash.
test::Outcome run_caught(const test::KernelCase &kernel, const test::Problem &problem,
                         const test::Layout &layout);

// Returns how many crashes run_caught() has survived. Each crash leaks the memory of its call.
std::size_t crashes_survived();

// Sets the text that a crash outside of run_caught prints before it ends the program.
void note_running(const std::string &what);

}  // namespace rapt::validate
