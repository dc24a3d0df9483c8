// This machine, and the levels that it can run.
#pragma once

#include <string>
#include <vector>

namespace rapt::validate {

struct LevelReport {
  std::string name;
  bool compiled = false;              // into the library
  bool usable = false;                // as the library says
  std::vector<std::string> missing;   // features that the CPU does not report
  std::vector<std::string> disabled;  // that it reports and its operating system does not enable
  std::vector<std::string> refused;   // needed, and not permitted to this process
};

// The reason in words, for a level that is not usable.
std::string why_not_usable(const LevelReport &level);

struct CpuReport {
  std::string name;
  std::string system;                 // operating system, release and machine
  bool emulated = false;              // QEMU's x86 emulation
  std::vector<std::string> features;  // that the CPU reports
  std::vector<std::string> enabled;   // of these, what its operating system enables
  std::vector<LevelReport> levels;
};

CpuReport report_cpu();

// The reason why the library ignores the environment's RAPT_ISA, or empty.
std::string complaint_about_rapt_isa();

}  // namespace rapt::validate
