// Faults of the processor, such as an access to a guard page or an instruction that it does not know:
// survived, or named before they end the program.
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

// From now on a fault outside of survives(), and abort(), print "FAIL: <fault> in <what runs>" and end the
// program with status 1. A signal that somebody sends is no fault, and ends the program as it does by
// default. A later call replaces `describe`.
void catch_faults(Describe describe);

// Calls body(context). False: it ended in a fault, and its objects are not destroyed. Needs catch_faults().
bool survives(void (*body)(void *), void *context, Fault &fault);

}  // namespace rapt::test
