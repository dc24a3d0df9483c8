// What may change from one run on a machine to the next, for the record beside the results.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rapt::bench {

// Names and values; what the system does not tell is left out. `cpu` is the one that the process runs on.
std::vector<std::pair<std::string, std::string>> machine_state(unsigned cpu);

// Over the last minute; below 0 where unknown.
double load_average();

// In GHz, under vector code of the level; 0 if there is none. Takes some 20 ms.
double measured_clock(const std::string &isa);

}  // namespace rapt::bench
