// Declares the parts of WatchedCall that depend on the processor and its calling convention.
#pragma once

#include <span>

#include "support/watched_call.hpp"

// Loads the registers from `frame`, calls frame->function, and stores the registers in `frame`.
extern "C" void rapt_test_watched_call(rapt::test::CallFrame *frame);

namespace rapt::test {

// Returns the names of the 64-bit register parts that CallFrame::before and CallFrame::after hold, in order.
std::span<const char *const> preserved_words();

// Stores the arguments where rapt_test_watched_call() loads them from.
void place_arguments(std::span<const Argument> arguments, CallFrame &frame);

// Stores integers from frame.arguments[0] on and floats from frame.arguments[8] on. This fits conventions
// that count integers and floats separately. The ninth and tenth integer lie where floats would be, so no
// function has both.
void place_by_kind(std::span<const Argument> arguments, CallFrame &frame);

void append_name(std::string &list, const std::string &name);

// Returns the functions for all calling conventions of x86-64.
std::vector<std::pair<std::string, void (*)()>> misbehaving_functions_of_x86();

}  // namespace rapt::test
