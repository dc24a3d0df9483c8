// The machine as hwloc sees it: the only place that asks hwloc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rapt::bench {

struct Topology {
  std::string cpu_name;
  std::size_t l1d = 0;  // bytes; 0 where the machine has, or reports, no such cache
  std::size_t l2 = 0;
  std::size_t l3 = 0;  // the whole cache, however many cores share it
  unsigned pinned_cpu = 0;
  int cpu_count = 0;
  bool pinned = false;
  std::vector<unsigned> cpus;  // those to choose from, the pinned one first
};

// Pins the process to one CPU of those it may run on, and reads that CPU's caches.
Topology pin_to_one_cpu();

// The calling thread alone. A wish: where the system does not allow it nothing happens.
void pin_thread(unsigned cpu);

}  // namespace rapt::bench
