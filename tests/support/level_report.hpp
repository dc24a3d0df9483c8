// The levels of this build, and why this machine does not run one.
#pragma once

#include <string>
#include <vector>

namespace rapt::test {

struct LevelReport {
  std::string name;
  bool compiled = false;              // into the library
  bool usable = false;                // as the library says, and its kernels serve
  std::vector<std::string> missing;   // features that the CPU does not report
  std::vector<std::string> disabled;  // features that it reports, but its operating system does not enable
  std::vector<std::string> refused;   // features that it enables, but does not permit to this process
};

// In the order of levels. Asks Linux for AMX's tiles if they are usable.
std::vector<LevelReport> level_reports();

// Returns why a level is not usable. An empty text is a failure: the library left out a level that this
// machine can run.
std::string why_not_usable(const LevelReport &level);

}  // namespace rapt::test
