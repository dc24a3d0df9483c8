// Lists the levels of this build, and why this machine does not run one.
#pragma once

#include <string>
#include <vector>

namespace rapt::test {

struct LevelReport {
  std::string name;
  bool compiled = false;              // the library has the level
  bool usable = false;                // the library says so, and the level's kernels run
  std::vector<std::string> missing;   // features that the CPU does not report
  std::vector<std::string> disabled;  // features of the CPU that the operating system does not enable
  std::vector<std::string> refused;   // enabled features that this process is not permitted to use
};

// Returns the reports in the order of the levels. Asks Linux for AMX's tiles if they are usable.
std::vector<LevelReport> level_reports();

// Returns why a level is not usable. An empty text is a failure: the library left out a level that this
// machine can run.
std::string why_not_usable(const LevelReport &level);

}  // namespace rapt::test
