// Describes this machine and the levels that it can run.
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
  bool emulated = false;              // runs under QEMU's x86 emulation
  std::vector<std::string> features;  // features that the CPU reports
  std::vector<std::string> enabled;   // reported features that the operating system enables
  std::vector<LevelReport> levels;
};

CpuReport report_cpu();

// Returns why the library ignores the environment variable RAPT_ISA, or an empty string.
std::string complaint_about_rapt_isa();

}  // namespace rapt::validate
