#include "support/conditions.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "commit.hpp"
#include "peers/peer.hpp"
#include "rapt/rapt.h"

namespace rapt::bench {
namespace {

std::string first_line(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Inversion, limit, below)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ScalingRow, size, isa, adapter, threads, seconds, speed_up)

void record_conditions(const Conditions &conditions, const Plan &plan) {
  const Topology &topology = conditions.topology;
  std::vector<std::string> versions;
  for (const Peer &one : peers()) versions.push_back(one.name + "-" + one.isa + " " + one.version);
  const std::string of_cpu = fmt::format("/sys/devices/system/cpu/cpu{}/cpufreq/", topology.pinned_cpu);
  const char *const isa_asked = std::getenv("RAPT_ISA");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"rapt_version", rapt_version()},
      {"commit", RAPT_BENCH_COMMIT},
      {"compiler", RAPT_BENCH_COMPILER},
      {"compiler_flags", RAPT_BENCH_FLAGS},
      {"isas", fmt::format("{}", fmt::join(plan.isas, ", "))},
      {"peers", plan.peers ? fmt::format("{}", fmt::join(versions, "; ")) : ""},
      {"cpu_name", topology.cpu_name},
      {"pinned_cpu", topology.pinned ? std::to_string(topology.pinned_cpu) : "none"},
      {"rapt_isa_environment", isa_asked ? isa_asked : ""},
      {"os", first_line("/etc/os-release")},
      {"kernel", first_line("/proc/sys/kernel/osrelease")},
      {"governor", first_line(of_cpu + "scaling_governor")},
      {"turbo_disabled", first_line("/sys/devices/system/cpu/intel_pstate/no_turbo")},
      {"transparent_huge_pages", first_line("/sys/kernel/mm/transparent_hugepage/enabled")},
#include "level_flags.inc"
  };
  for (const std::string &isa : plan.isas) {
    facts.emplace_back("f32_lanes_" + isa, fmt::format("{:.0f}", operations_of_fma(isa, sizeof(float)) / 2));
  }
  for (const WorkingSet &set : plan.working_sets) {
    facts.emplace_back("working_set_" + set.label, std::to_string(set.bytes));
  }
  for (const auto &[name, value] : facts) {
    if (!value.empty()) benchmark::AddCustomContext(name, value);
  }
}

std::string state_afterwards(const Conditions &conditions, const Suite &suite,
                             const std::vector<Case *> &cases, const Scaling &scaling) {
  using json = nlohmann::ordered_json;
  json reasons = json::object(), rows = json::object(), inherited = json::object(), errors = json::object();
  const auto add_reason = [&](const char *name, const char *meaning, std::ptrdiff_t count) {
    if (count > 0) reasons[name] = {{"count", count}, {"meaning", meaning}};
  };
  for (const Rule &rule : rules) {
    const auto breaks = [&](const Case *one) { return std::ranges::count(one->doubts, rule.name) > 0; };
    add_reason(rule.name, rule.meaning, std::ranges::count_if(cases, breaks));
  }
  add_reason("limits", "limits below those of a weaker level", std::ssize(suite.inverted_limits()));
  for (const Case *one : cases) {
    if (!one->doubts.empty()) rows[one->name] = one->doubts;
    const std::string of_all_sizes = one->kernel + "/" + one->implementation;
    if (one->measured() && !one->is_peer && one->kernel != limit_kernel && one->served_by != one->isa)
      inherited[of_all_sizes] = one->served_by;
    if (one->error && !std::isfinite(*one->error))
      errors[of_all_sizes] = std::isnan(*one->error) ? "nan" : "inf";
  }
  const Topology &topology = conditions.topology;
  const nlohmann::json inverted_limits = suite.inverted_limits(), on_threads = scaling;
  const json after = {{"limits", suite.limits().rates()},
                      {"disturbed",
                       {{"verdict", reasons.empty() ? "quiet" : "disturbed"},
                        {"reasons", reasons},
                        {"rows", rows},
                        {"limits", inverted_limits}}},
                      {"scaling", on_threads},
                      {"inherited", inherited},
                      {"errors", errors},
                      {"run",
                       {{"partial", conditions.partial},
                        {"skipped", conditions.skipped},
                        {"repetitions", conditions.repetitions},
                        {"min_time", conditions.min_time},
                        {"load", conditions.load},
                        {"cpu_count", topology.cpu_count},
                        {"caches", {{"L1d", topology.l1d}, {"L2", topology.l2}, {"L3", topology.l3}}}}}};
  return after.dump(1);
}

}  // namespace rapt::bench
