// Catches processor faults, such as an access to a guard page or an unknown instruction. A test can survive
// an expected fault. Any other fault prints its name before it ends the program.
#pragma once

#include <cstddef>

namespace rapt::test {

struct Fault {
  const char *name = "";  // the operating system's name for the fault
  const void *address = nullptr;
  bool unknown_instruction = false;
};

// Writes a description of the running test into `text`. The fault handler calls it, so it must not allocate.
using Describe = void (*)(char *text, std::size_t size);

// Installs the fault handler. From then on, abort() or a fault outside survives() prints "FAIL: <fault> in
// <running test>" and ends the program with status 1. A signal that another process sends keeps its default
// effect. A later call replaces `describe`.
void catch_faults(Describe describe);

// Calls body(context). Returns false if a fault ended it; its local objects are then not destroyed. Call
// catch_faults() first.
bool survives(void (*body)(void *), void *context, Fault &fault);

}  // namespace rapt::test
