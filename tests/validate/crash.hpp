// Turns a crash of a kernel into a finding, so that the program goes on.
#pragma once

#include <cstddef>
#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// Catches SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP from now on.
void catch_crashes();

// Calls kernel.run. A crash becomes the fault of the outcome, in words.
test::Outcome run_caught(const test::KernelCase &kernel, const test::Problem &problem,
                         const test::Layout &layout);

// Returns the number of crashes that run_caught has survived. Each leaks the memory of its call.
std::size_t crashes_survived();

// Sets the text that a crash outside of run_caught prints before it ends the program.
void note_running(const std::string &what);

}  // namespace rapt::validate
