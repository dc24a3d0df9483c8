#pragma once

#include <string>

namespace rapt::test {

// Returns the names of the operating system, its release and the machine.
std::string system_name();

}  // namespace rapt::test
