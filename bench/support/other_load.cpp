#include "support/other_load.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace rapt::bench {
namespace {

double seconds(const timeval &time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double busy_seconds(const std::string &line, double ticks_per_second) {
  std::istringstream fields(line);
  std::string name;
  double user, nice, system, idle, iowait, irq, softirq, steal;
  fields >> name >> user >> nice >> system >> idle >> iowait >> irq >> softirq >> steal;
  if (!fields || name != "cpu" || user + system + idle == 0) return std::numeric_limits<double>::quiet_NaN();
  return (user + nice + system + irq + softirq + steal) / ticks_per_second;
}

double load_of_others(double busy, double own, double wall) {
  const double others = busy - own;
  return others < 0 ? 0 : others / wall;  // ticks are coarse: a small negative number is 0
}

OtherLoad::Reading OtherLoad::now() {
  std::ifstream file("/proc/stat");
  std::string line;
  std::getline(file, line);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {std::chrono::steady_clock::now(), busy_seconds(line, static_cast<double>(sysconf(_SC_CLK_TCK))),
          seconds(usage.ru_utime) + seconds(usage.ru_stime)};
}

double OtherLoad::elapsed() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - last_.time).count();
}

double OtherLoad::sample() {
  const Reading before = last_;
  last_ = now();
  return load_of_others(last_.busy - before.busy, last_.own - before.own,
                        std::chrono::duration<double>(last_.time - before.time).count());
}

}  // namespace rapt::bench
