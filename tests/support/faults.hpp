// Faults of the processor, such as an access to a guard page or an unknown instruction. A test survives them,
// or names them before they end the program.
#pragma once

#include <cstddef>

namespace rapt::test {

struct Fault {
  const char *name = "";  // the system's
  const void *address = nullptr;
  bool unknown_instruction = false;
};

// Writes what runs into `text`. It is called where the fault happens, and so allocates nothing.
using Describe = void (*)(char *text, std::size_t size);

// From now on a fault outside of survives(), or abort(), prints "FAIL: <fault> in <what runs>" and ends the
// program with status 1. A signal that somebody sends is not a fault, and ends the program as it does by
// default. A later call replaces `describe`.
void catch_faults(Describe describe);

// Calls body(context). Returns false if it ended in a fault; its objects are then not destroyed.
// catch_faults() must come first.
bool survives(void (*body)(void *), void *context, Fault &fault);

}  // namespace rapt::test
