#include <sys/utsname.h>

#include "support/system_name.hpp"

namespace rapt::test {

std::string system_name() {
  utsname system;
  if (uname(&system) != 0) return "unknown";
  return std::string(system.sysname) + " " + system.release + " " + system.machine;
}

}  // namespace rapt::test
