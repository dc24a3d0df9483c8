#include "support/conditions.hpp"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "commit.hpp"
#include "peers/peer.hpp"
#include "rapt/rapt.h"
#include "support/text.hpp"

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

Verdict verdict_of(const Suite &suite, const std::vector<Case *> &cases) {
  Verdict verdict;
  std::map<std::string, std::size_t> counts;
  for (const Case *one : cases) {
    verdict.rows += one->kernel != limit_kernel && one->measured();
    verdict.marked += !one->doubts.empty();
    for (const std::string &rule : one->doubts) ++counts[rule];
  }
  for (const Rule &rule : rules) {
    if (counts.contains(rule.name)) verdict.reasons.emplace_back(rule, counts[rule.name]);
  }
  const Rule inverted = {"limits", nullptr, 0, "limits below those of a weaker level"};
  if (!suite.inverted_limits().empty())
    verdict.reasons.emplace_back(inverted, suite.inverted_limits().size());
  return verdict;
}

void print_verdict(const Verdict &verdict, const std::vector<Inversion> &inverted_limits) {
  if (verdict.reasons.empty()) {
    print_line("\nQuiet: none of {} rows is marked.", verdict.rows);
    return;
  }
  print_line("\nDisturbed: of {} rows {} are marked with an exclamation mark.", verdict.rows, verdict.marked);
  for (const auto &[rule, count] : verdict.reasons) {
    print_line("  {:<9}{:>5}  {}", rule.name, count, rule.meaning);
  }
  for (const Inversion &one : inverted_limits) print_line("  {} was measured below {}", one.limit, one.below);
}

std::string state_afterwards(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling) {
  using nlohmann::json;
  const Verdict verdict = verdict_of(suite, cases);
  json reasons = json::object(), rows = json::object();
  for (const auto &[rule, count] : verdict.reasons) {
    reasons[rule.name] = {{"count", count}, {"meaning", rule.meaning}};
  }
  for (const Case *one : cases) {
    if (!one->doubts.empty()) rows[one->name] = one->doubts;
  }
  const json after = {{"limits", suite.limits().rates()},
                      {"disturbed",
                       {{"verdict", verdict.reasons.empty() ? "quiet" : "disturbed"},
                        {"reasons", reasons},
                        {"rows", rows},
                        {"limits", suite.inverted_limits()}}},
                      {"scaling", scaling}};
  return after.dump(1);
}

}  // namespace rapt::bench
