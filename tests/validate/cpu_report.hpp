// Describes this machine, and the levels that it can run.
#pragma once

#include <string>
#include <vector>

#include "support/level_report.hpp"

namespace rapt::validate {

using test::LevelReport;
using test::why_not_usable;

struct CpuReport {
  std::string name;
  std::string system;                 // operating system, release and machine
  bool emulated = false;              // QEMU's x86 emulation
  std::vector<std::string> features;  // that the CPU reports
  std::vector<std::string> enabled;   // of these, what its operating system enables
  std::vector<LevelReport> levels;
};

CpuReport report_cpu();

// Returns why the library ignores the RAPT_ISA of the environment, or an empty text.
std::string complaint_about_rapt_isa();

}  // namespace rapt::validate
