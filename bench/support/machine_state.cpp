#include "support/machine_state.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "limits/loops.hpp"

namespace rapt::bench {
namespace {

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string kernel_version() {
  utsname name{};
  return uname(&name) == 0 ? std::string(name.sysname) + " " + name.release : "";
}

// "Debian GNU/Linux 12 (bookworm)"
std::string os_name() {
  std::ifstream file("/etc/os-release");
  const std::string key = "PRETTY_NAME=\"";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) return line.substr(key.size(), line.size() - key.size() - 1);
  }
  return "";
}

constexpr const char *compiler =
#ifdef __clang__
    __VERSION__;
#else
    "gcc " __VERSION__;
#endif

}  // namespace

std::vector<std::pair<std::string, std::string>> machine_state(unsigned cpu) {
  const std::string frequencies = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cpufreq/";
  std::vector<std::pair<std::string, std::string>> state = {
      {"os", os_name()},
      {"kernel", kernel_version()},
      {"compiler", compiler},
      {"compiler_flags", RAPT_BENCH_FLAGS},
      {"governor", first_line(frequencies + "scaling_governor")},
      {"frequency_khz", first_line(frequencies + "scaling_cur_freq")},
      {"turbo_disabled", first_line("/sys/devices/system/cpu/intel_pstate/no_turbo")},
      {"transparent_huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
  };
  std::erase_if(state, [](const auto &fact) { return fact.second.empty(); });
  return state;
}

double load_average() {
  double load = -1;
  return getloadavg(&load, 1) == 1 ? load : -1;
}

double measured_clock(const std::string &isa) {
  const LimitLoops *loops = limit_loops(isa);
  if (!loops) return 0;
  using Time = std::chrono::steady_clock;
  double best = 0;
  const Time::time_point end = Time::now() + std::chrono::milliseconds(20);
  for (Time::time_point start = Time::now(); start < end; start = Time::now()) {
    double cycles = 0;
    for (int i = 0; i < 20; ++i) cycles += static_cast<double>(loops->clock());
    const std::chrono::duration<double, std::nano> elapsed = Time::now() - start;
    best = std::max(best, cycles / elapsed.count());
  }
  return best;
}

}  // namespace rapt::bench
