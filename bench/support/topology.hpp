// The machine as hwloc sees it. Nothing else uses hwloc.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace rapt::bench {

struct Topology {
  std::string cpu_name;
  std::size_t l1d = 0;  // bytes; 0 where the machine has no such cache or does not report it
  std::size_t l2 = 0;
  std::size_t l3 = 0;  // the whole cache, however many cores share it
  unsigned pinned_cpu = 0;
  int cpu_count = 0;
  bool pinned = false;
  std::vector<unsigned> cpus;  // that the process may use, the pinned one first
};

// Pins the process to one of the CPUs that it may run on, and reads the caches of that CPU.
Topology pin_to_one_cpu();

// Pins the calling thread, if the system allows it.
void pin_thread(unsigned cpu);

}  // namespace rapt::bench
