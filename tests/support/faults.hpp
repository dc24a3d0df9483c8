// Catches faults of the processor, such as an access to a guard page or an unknown instruction. A test can
// survive a fault. Any other fault is named before it ends the program.
#pragma once

#include <cstddef>

namespace rapt::test {

struct Fault {
  const char *name = "";  // the system's name of the fault
  const void *address = nullptr;
  bool unknown_instruction = false;
};

// Writes a description of what runs into `text`. It is called in the fault's handler, and so must not
// allocate.
using Describe = void (*)(char *text, std::size_t size);

// After this call a fault outside of survives(), or abort(), prints "FAIL: <fault> in <what runs>" and ends
// the program with status 1. A signal that somebody sends is not a fault, and has its default effect. A later
// call replaces `describe`.
void catch_faults(Describe describe);

// Calls body(context). Returns false if a fault ended the body, whose objects are then not destroyed.
// catch_faults() must be called first.
bool survives(void (*body)(void *), void *context, Fault &fault);

}  // namespace rapt::test
