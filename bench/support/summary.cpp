#include "support/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <map>
#include <tuple>
#include <utility>

#include "rapt/rapt.h"

namespace rapt::bench {
namespace {

constexpr int page_width = 100;
constexpr int kernel_width = 21;

[[gnu::format(printf, 1, 2)]] std::string text(const char *format, ...) {
  char buffer[256];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(buffer, sizeof buffer, format, arguments);
  va_end(arguments);
  return buffer;
}

std::string left(const std::string &cell, int width) { return text("%-*s", width, cell.c_str()); }
std::string right(const std::string &cell, int width) { return text("%*s", width, cell.c_str()); }
std::string centre(const std::string &cell, int width) {
  const int before = (width - static_cast<int>(cell.size())) / 2;
  return left(std::string(static_cast<std::size_t>(std::max(before, 0)), ' ') + cell, width);
}

void print_line(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  std::puts(line.c_str());
}

// Three significant digits.
std::string number(double value) {
  const int digits = value < 0.1 ? 4 : value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return text("%.*f", digits, value);
}

std::string time_text(double seconds) {
  if (seconds < 1e-6) return number(seconds * 1e9) + " ns";
  if (seconds < 1e-3) return number(seconds * 1e6) + " us";
  return number(seconds * 1e3) + " ms";
}

std::string join(const std::vector<std::string> &parts) {
  std::string joined;
  for (const std::string &part : parts) joined += (joined.empty() ? "" : ", ") + part;
  return joined;
}

void print_fact(const char *name, const std::string &fact) {
  constexpr std::size_t name_width = 14;
  // Wrapped at spaces to the page.
  std::string rest = fact;
  std::string head = name;
  while (!rest.empty()) {
    std::size_t length = rest.size();
    if (length > page_width - name_width) {
      length = rest.rfind(' ', page_width - name_width);
      if (length == std::string::npos) length = rest.size();
    }
    print_line(left(head, name_width) + rest.substr(0, length));
    rest.erase(0, std::min(length + 1, rest.size()));
    head.clear();
  }
}

double gigabytes_per_second(const Case &measured) {
  return static_cast<double>(measured.work.bytes) / measured.seconds * 1e-9;
}

// The measured cases by kernel, instruction set and size.
class Results {
 public:
  explicit Results(const std::vector<Case> &cases) {
    for (const Case &one : cases) {
      if (one.seconds > 0) by_key_[{one.kernel, one.isa, one.size}] = &one;
    }
  }

  const Case *find(const std::string &kernel, const std::string &isa, const std::string &size) const {
    const auto found = by_key_.find({kernel, isa, size});
    return found == by_key_.end() ? nullptr : found->second;
  }

  // How many times faster than the scalar level; 0 if that is unknown.
  double speed_up(const std::string &kernel, const std::string &isa, const std::string &size) const {
    const Case *scalar = find(kernel, "scalar", size);
    const Case *one = find(kernel, isa, size);
    return scalar && one ? scalar->seconds / one->seconds : 0;
  }

 private:
  std::map<std::tuple<std::string, std::string, std::string>, const Case *> by_key_;
};

std::string speed_up_text(double speed_up) {
  return speed_up > 0 ? text("%.*fx", speed_up < 10 ? 2 : 1, speed_up) : "-";
}

bool is_level(const Plan &plan, const std::string &size) {
  return std::any_of(plan.levels.begin(), plan.levels.end(),
                     [&size](const WorkingSet &level) { return level.label == size; });
}

// The rows of the level table, in the order of the suite.
std::vector<std::pair<std::string, std::string>> kernels_and_isas(const Plan &plan,
                                                                  const std::vector<Case> &cases) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::string kernel_above;
  for (const Case &one : cases) {
    if (!is_level(plan, one.size) || one.kernel == kernel_above) continue;
    kernel_above = one.kernel;
    for (const std::string &isa : plan.isas) {
      const bool measured = std::any_of(cases.begin(), cases.end(), [&](const Case &other) {
        return other.kernel == one.kernel && other.isa == isa && is_level(plan, other.size);
      });
      if (measured) rows.emplace_back(one.kernel, isa);
    }
  }
  return rows;
}

void print_mean_speed_ups(const Plan &plan, const Results &results,
                          const std::vector<std::pair<std::string, std::string>> &rows) {
  std::vector<std::string> means;
  for (const std::string &isa : plan.isas) {
    double log_sum = 0;
    int count = 0;
    for (const auto &[kernel, row_isa] : rows) {
      const double speed_up = results.speed_up(kernel, isa, plan.levels[0].label);
      if (row_isa != isa || isa == "scalar" || speed_up <= 0) continue;
      log_sum += std::log(speed_up);
      ++count;
    }
    if (count > 0) means.push_back(isa + " " + speed_up_text(std::exp(log_sum / count)));
  }
  if (!means.empty()) std::printf("Geometric mean of the speed-ups at L1: %s.\n", join(means).c_str());
}

}  // namespace

std::string size_text(std::size_t bytes) {
  constexpr double kib = 1024;
  const double value = static_cast<double>(bytes);
  if (bytes == 0) return "none";
  if (value < kib * kib) return text("%.0f KiB", value / kib);
  return text("%.*f MiB", bytes % (1024 * 1024) ? 1 : 0, value / kib / kib);
}

void print_conditions(const Conditions &conditions, const Plan &plan) {
  const Topology &topology = conditions.topology;
  std::vector<std::string> sets;
  for (const WorkingSet &level : plan.levels) sets.push_back(level.label + " " + size_text(level.bytes));

  std::string cpu = topology.cpu_name;
  cpu += topology.pinned ? text(", pinned to CPU %u of %d", topology.pinned_cpu, topology.cpu_count)
                         : std::string(", not pinned: the system does not allow it");
  std::printf("rapt %s benchmarks\n\n", rapt_version());
  print_fact("CPU", cpu);
  print_fact("caches", "L1d " + size_text(topology.l1d) + ", L2 " + size_text(topology.l2) + ", L3 " +
                           size_text(topology.l3) + ", as hwloc reports them");
  print_fact("working sets", join(sets) + " (inputs and outputs together)");
  if (topology.l3 > plan.levels.back().bytes / 4) {
    print_fact("", "the L3 is large beside these: mem may partly run from it");
  }
  print_fact("ISAs", join(conditions.isas));
  for (const std::string &skipped : conditions.skipped) print_fact("", "skipped: " + skipped);
  print_fact(
      "scalar",
      "is the reference, built for any CPU of this architecture: it may lack fused multiply-add and call "
      "libm for each one, so a speed-up over it is not one over a compiler's own vector code");
  print_fact("each number", text("the best of %d repetitions of at least %g s CPU time",
                                 conditions.repetitions, conditions.min_time));
  if (conditions.load >= 0) {
    print_fact("",
               text("load average %.1f on %d CPUs when the run began", conditions.load, topology.cpu_count));
  }
  print_fact("GB/s", "10^9 bytes a second, each input read once and each output written once");
}

void print_level_table(const Plan &plan, const std::vector<Case> &cases) {
  const auto rows = kernels_and_isas(plan, cases);
  if (rows.empty()) return;
  const Results results(cases);
  constexpr int isa_width = 12;
  constexpr int cell_width = 7;
  const int group_width = cell_width * static_cast<int>(plan.levels.size());
  const auto level_headings = [&plan] {
    std::string headings;
    for (const WorkingSet &level : plan.levels) headings += right(level.label, cell_width);
    return headings;
  };

  std::puts("");
  print_line(left("", kernel_width + isa_width) + centre("    ns per element", group_width) + "  " +
             centre("      GB/s", group_width) + right("over", 9));
  print_line(left("kernel", kernel_width) + left("isa", isa_width) + level_headings() + "  " +
             level_headings() + right("scalar", 9));
  print_line(std::string(static_cast<std::size_t>(kernel_width + isa_width + 2 * group_width + 2 + 9), '-'));

  bool inherited = false;
  std::string kernel_above;
  for (const auto &[kernel, isa] : rows) {
    std::string nanoseconds;
    std::string bandwidths;
    bool row_inherited = false;
    for (const WorkingSet &level : plan.levels) {
      const Case *found = results.find(kernel, isa, level.label);
      const double elements = found ? static_cast<double>(found->work.elements) : 1;
      nanoseconds += right(found ? number(found->seconds / elements * 1e9) : "-", cell_width);
      bandwidths += right(found ? text("%.1f", gigabytes_per_second(*found)) : "-", cell_width);
      if (found && found->served_by != isa) row_inherited = true;
    }
    inherited |= row_inherited;
    print_line(
        left(kernel == kernel_above ? "" : kernel, kernel_width) +
        left(row_inherited ? isa + "*" : isa, isa_width) + nanoseconds + "  " + bandwidths +
        right(isa == "scalar" ? "" : speed_up_text(results.speed_up(kernel, isa, plan.levels[0].label)), 9));
    kernel_above = kernel;
  }
  std::puts("");
  if (inherited) std::puts("* has no code of its own for the kernel: a lower instruction set's serves.");
  print_mean_speed_ups(plan, results, rows);
}

void print_shape_table(const Plan &plan, const std::vector<Case> &cases) {
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Case &one : cases) {
    std::pair<std::string, std::string> row(one.kernel, one.size);
    if (!is_level(plan, one.size) && (rows.empty() || rows.back() != row)) rows.push_back(std::move(row));
  }
  if (rows.empty()) return;
  const Results results(cases);
  constexpr int size_width = 17;
  constexpr int time_width = 12;

  // What fits the page: the scalar level, which all are compared with, and the three strongest.
  std::vector<std::string> isas = plan.isas;
  if (isas.size() > 4) isas.erase(isas.begin() + 1, isas.end() - 3);

  std::puts("\nTime of one call. GB/s and the speed-up over scalar are the fastest one's.\n");
  std::string headings = left("kernel", kernel_width) + left("size", size_width);
  for (const std::string &isa : isas) headings += right(isa, time_width);
  headings += right("GB/s", 7) + right("over", 7);
  print_line(headings);
  print_line(std::string(headings.size(), '-'));

  std::string kernel_above;
  for (const auto &[kernel, size] : rows) {
    std::string line = left(kernel == kernel_above ? "" : kernel, kernel_width) + left(size, size_width);
    const Case *fastest = nullptr;
    for (const std::string &isa : isas) {
      const Case *found = results.find(kernel, isa, size);
      line += right(found ? time_text(found->seconds) : "-", time_width);
      if (found && (!fastest || found->seconds < fastest->seconds)) fastest = found;
    }
    if (fastest) {
      line += right(text("%.1f", gigabytes_per_second(*fastest)), 7) +
              right(speed_up_text(results.speed_up(kernel, fastest->isa, size)), 7);
    }
    print_line(line);
    kernel_above = kernel;
  }
}

}  // namespace rapt::bench
