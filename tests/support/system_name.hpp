#pragma once

#include <string>

namespace rapt::test {

// The operating system, its release and the machine.
std::string system_name();

}  // namespace rapt::test
