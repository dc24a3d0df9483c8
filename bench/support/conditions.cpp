#include "support/conditions.hpp"

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "commit.hpp"
#include "peers/peer.hpp"
#include "rapt/rapt.h"
#include "support/machine_state.hpp"
#include "support/verdict.hpp"

namespace rapt::bench {
namespace {

constexpr std::pair<const char *, const char *> level_flags[] = {
#include "level_flags.inc"
};

std::string peer_versions() {
  std::vector<std::string> versions;
  for (const Peer &one : peers()) versions.push_back(one.name + "-" + one.isa + " " + one.version);
  return fmt::format("{}", fmt::join(versions, "; "));
}

}  // namespace

std::string environment_isa() {
  const char *asked = std::getenv("RAPT_ISA");
  if (!asked || !*asked) return "";
  const rapt_status status = rapt_isa_status();
  if (status == RAPT_OK) {
    return fmt::format("RAPT_ISA={} is set, but here --isa chooses the instruction sets", asked);
  }
  return fmt::format("RAPT_ISA={}: {}; the library ignores it and uses {}", asked, rapt_status_text(status),
                     rapt_active_isa());
}

void record_conditions(const Conditions &conditions, const Plan &plan) {
  const Topology &topology = conditions.topology;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"rapt_version", rapt_version()},
      {"commit", RAPT_BENCH_COMMIT},
      {"isas", fmt::format("{}", fmt::join(plan.isas, ", "))},
      {"peers", plan.peers ? peer_versions() : ""},
      {"cpu_name", topology.cpu_name},
      {"pinned_cpu", topology.pinned ? std::to_string(topology.pinned_cpu) : "none"},
      {"l1d_bytes", std::to_string(topology.l1d)},
      {"l2_bytes", std::to_string(topology.l2)},
      {"l3_bytes", std::to_string(topology.l3)},
      {"clock_ghz", std::to_string(conditions.clock)},
      {"rapt_isa_environment", conditions.environment.empty() ? "not set" : conditions.environment},
  };
  for (const auto &[name, flags] : level_flags) facts.emplace_back(name, flags);
  for (const std::string &isa : plan.isas) {
    facts.emplace_back("f32_lanes_" + isa, fmt::format("{:.0f}", operations_of_fma(isa, sizeof(float)) / 2));
  }
  for (const WorkingSet &set : plan.working_sets) {
    facts.emplace_back("working_set_" + set.label, std::to_string(set.bytes));
  }
  for (auto &fact : machine_state(topology.pinned_cpu)) facts.push_back(std::move(fact));
  for (const auto &[name, value] : facts) benchmark::AddCustomContext(name, value);
}

std::string state_afterwards(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling) {
  using json = nlohmann::ordered_json;
  const Verdict verdict = verdict_of(suite, cases);
  json reasons = json::object(), rows = json::object(), limits = json::array();
  for (const Reason &reason : verdict.reasons) {
    reasons[reason.name] = {{"count", reason.count}, {"meaning", reason.meaning}};
  }
  for (const Case *one : cases) {
    if (!one->doubts.empty()) rows[one->name] = one->doubts;
  }
  for (const Inversion &one : suite.inverted_limits()) {
    limits.push_back({{"limit", one.limit}, {"below", one.below}});
  }
  json threads = json::array();
  for (const ScalingRow &row : scaling) {
    threads.push_back({{"size", row.size},
                       {"isa", row.isa},
                       {"adapter", row.adapter},
                       {"threads", row.threads},
                       {"seconds", row.seconds},
                       {"speed_up", row.speed_up}});
  }
  const json after = {{"load_avg", load_average()},
                      {"clock_ghz", measured_clock(suite.plan().isas.back())},
                      {"limits", suite.limits().rates()},
                      {"disturbed",
                       {{"verdict", verdict.word()},
                        {"rows_measured", verdict.rows},
                        {"rows_marked", verdict.marked},
                        {"reasons", reasons},
                        {"rows", rows},
                        {"limits", limits}}},
                      {"scaling", threads}};
  return after.dump(1);
}

}  // namespace rapt::bench
