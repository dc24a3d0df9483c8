// What this machine is, and which levels it can run.
#pragma once

#include <string>
#include <vector>

namespace rapt::validate {

struct LevelReport {
  std::string name;
  bool usable = false;                // as the library says
  std::vector<std::string> missing;   // features that the CPU does not report
  std::vector<std::string> disabled;  // that it reports and its operating system does not enable
};

struct CpuReport {
  std::string name;
  bool emulated = false;              // QEMU's x86 emulation
  std::vector<std::string> features;  // that the CPU reports
  std::vector<std::string> enabled;   // of these, what its operating system enables
  std::vector<LevelReport> levels;
};

CpuReport report_cpu();

}  // namespace rapt::validate
