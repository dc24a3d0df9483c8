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
  std::vector<std::string> disabled;  // that it reports, and its operating system does not enable
  std::vector<std::string> refused;   // that it enables, and does not permit to this process
};

// In their order. Asks Linux for AMX's tiles where they are usable.
std::vector<LevelReport> level_reports();

// The reason in words, for a level that is not usable. Empty: the library leaves out a level that this
// machine can run, which is a failure.
std::string why_not_usable(const LevelReport &level);

}  // namespace rapt::test
