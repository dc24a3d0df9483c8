// The state of the machine that may change between runs, to be recorded with the results.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rapt::bench {

// Names and values; those that the system does not tell are left out. The process runs on `cpu`.
std::vector<std::pair<std::string, std::string>> machine_state(unsigned cpu);

// Over the last minute; below 0 where unknown.
double load_average();

// The clock in GHz, under vector code of the level; 0 if the level has no limit loops. It takes about 20 ms.
double measured_clock(const std::string &isa);

}  // namespace rapt::bench
