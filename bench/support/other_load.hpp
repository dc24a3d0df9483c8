// How busy other processes keep the machine meanwhile.
#pragma once

#include <chrono>
#include <string>

namespace rapt::bench {

// CPU seconds of all processes since boot, from the first line of /proc/stat; NaN for any other line. Time
// stolen by other guests of the hypervisor counts as busy.
double busy_seconds(const std::string &line, double ticks_per_second);

// CPUs that others kept busy: `busy` CPU seconds of all processes and `own` of this one in `wall` seconds.
double load_of_others(double busy, double own, double wall);

class OtherLoad {
 public:
  OtherLoad() : last_(now()) {}

  // Seconds since the last sample. The system counts in ticks of 10 ms, so that a second is a good interval.
  double elapsed() const;
  // CPUs that others kept busy since the last sample; NaN where the system does not say.
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
