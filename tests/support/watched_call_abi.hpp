// Declares the parts of WatchedCall that depend on the processor and its calling convention.
#pragma once

#include <span>

#include "support/watched_call.hpp"

// Fills the registers from the frame, calls the function, and stores the registers in the frame.
extern "C" void rapt_test_watched_call(rapt::test::CallFrame *frame);

namespace rapt::test {

// Returns the names of the registers' 64-bit words, in the order of CallFrame::before and after.
std::span<const char *const> preserved_words();

// Puts the arguments where the trampoline takes them from.
void place_arguments(std::span<const Argument> arguments, CallFrame &frame);

// Places arguments for conventions that count integers and floats separately: eight integers, then two
// floats.
void place_by_kind(std::span<const Argument> arguments, CallFrame &frame);

void append_name(std::string &list, const std::string &name);

// These functions are for every convention of x86-64.
std::vector<std::pair<std::string, void (*)()>> misbehaving_functions_of_x86();

}  // namespace rapt::test
