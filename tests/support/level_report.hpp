// Reports the levels of this build, and why this machine cannot run some of them.
#pragma once

#include <string>
#include <vector>

namespace rapt::test {

struct LevelReport {
  std::string name;
  bool compiled = false;              // the library contains the level
  bool usable = false;                // rapt_isa_usable() is true, and Linux allows the tiles that it needs
  std::vector<std::string> missing;   // features that the CPU does not report
  std::vector<std::string> disabled;  // features of the CPU that the operating system does not enable
  std::vector<std::string> refused;   // enabled features that this process is not permitted to use
};

// Returns the reports in the order of the levels. Asks Linux to allow AMX tiles if they are usable.
std::vector<LevelReport> level_reports();

// Returns why a level is not usable. An empty string means an error: the library leaves out a level that this
// machine can run.
std::string why_not_usable(const LevelReport &level);

}  // namespace rapt::test
