// How busy others keep the machine while this process measures.
#pragma once

#include <chrono>
#include <string>

namespace rapt::bench {

// CPU seconds of all processes since boot, time stolen by a hypervisor's other guests included, of the first
// line of /proc/stat. NaN of any other line.
double busy_seconds(const std::string &line, double ticks_a_second);

// CPUs that others kept busy for so many seconds, in which all CPUs were busy, and this process itself. NaN
// of NaN.
double load_of_others(double busy, double own, double wall);

class OtherLoad {
 public:
  OtherLoad() : last_(now()) {}

  // Seconds since the last sample. The system counts in ticks of 10 ms: a second is a good interval.
  double elapsed() const;
  // CPUs that others kept busy since the last sample; NaN where the system does not tell.
  double sample();

 private:
  struct Reading {
    std::chrono::steady_clock::time_point time;
    double busy;
    double own;
  };
  static Reading now();

  Reading last_;
};

}  // namespace rapt::bench
