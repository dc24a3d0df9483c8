// The state of the machine that may change between runs, for the record next to the results.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rapt::bench {

// Names and values, without those that the system does not tell. The process runs on `cpu`.
std::vector<std::pair<std::string, std::string>> machine_state(unsigned cpu);

// Over the last minute; below 0 where unknown.
double load_average();

// In GHz, under vector code of the level; 0 if the level has no limit loops. Takes some 20 ms.
double measured_clock(const std::string &isa);

}  // namespace rapt::bench
