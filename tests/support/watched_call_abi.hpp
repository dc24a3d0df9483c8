// What a processor and its calling convention give WatchedCall.
#pragma once

#include <span>

#include "support/watched_call.hpp"

// Fills the registers from the frame, calls the function, and stores the registers in the frame.
extern "C" void rapt_test_watched_call(rapt::test::CallFrame *frame);

namespace rapt::test {

// The registers in words of 64 bits, in the order of CallFrame::before and after.
std::span<const char *const> preserved_words();

// Puts the arguments where the trampoline takes them from.
void place_arguments(std::span<const Argument> arguments, CallFrame &frame);

// For conventions that count integers and floats apart: eight integers, then two floats.
void place_by_kind(std::span<const Argument> arguments, CallFrame &frame);

void append_name(std::string &list, const std::string &name);

// Of every convention of x86-64.
std::vector<std::pair<std::string, void (*)()>> misbehaving_functions_of_x86();

}  // namespace rapt::test
