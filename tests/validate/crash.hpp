// A kernel that crashes is a finding, not the end of the program.
#pragma once

#include <cstddef>
#include <string>

#include "support/kernel_case.hpp"

namespace rapt::validate {

// Catches SIGSEGV, SIGBUS, SIGILL, SIGFPE and SIGTRAP from now on.
void catch_crashes();

// As kernel.run; a crash is the outcome's fault, in words.
test::Outcome run_caught(const test::KernelCase &kernel, const test::Problem &problem,
                         const test::Layout &layout);

// How many crashes run_caught has survived. Each leaks the memory of its call.
std::size_t crashes_survived();

// What a crash outside of run_caught, which ends the program, prints about itself.
void note_running(const std::string &what);

}  // namespace rapt::validate
