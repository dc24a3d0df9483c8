// Describes the machine as hwloc sees it. Only topology.cpp uses hwloc.
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
  std::vector<unsigned> cpus;  // CPUs that the process may use; the first is pinned_cpu
};

// Pins the process to one of the CPUs that it may run on, and reads the caches of that CPU.
Topology pin_to_one_cpu();

// Binds the calling thread to these CPUs, if the system allows it. Threads that the caller starts later are
// bound too.
void bind_thread(const std::vector<unsigned> &cpus);

}  // namespace rapt::bench
