#include "support/conditions.hpp"

#include <benchmark/benchmark.h>

#include <utility>

#include "peers/peer.hpp"
#include "rapt/rapt.h"
#include "support/machine_state.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

std::string peer_versions() {
  std::string versions;
  for (const Peer &one : peers()) {
    versions += (versions.empty() ? "" : "; ") + one.name + "-" + one.isa + " " + one.version;
  }
  return versions;
}

}  // namespace

void record_conditions(const Conditions &conditions, const Plan &plan) {
  const Topology &topology = conditions.topology;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"rapt_version", rapt_version()},
      {"isas", join(plan.isas)},
      {"peers", plan.peers ? peer_versions() : ""},
      {"cpu_name", topology.cpu_name},
      {"pinned_cpu", topology.pinned ? std::to_string(topology.pinned_cpu) : "none"},
      {"l1d_bytes", std::to_string(topology.l1d)},
      {"l2_bytes", std::to_string(topology.l2)},
      {"l3_bytes", std::to_string(topology.l3)},
      {"clock_ghz", std::to_string(conditions.clock)},
  };
  for (const WorkingSet &level : plan.levels) {
    facts.emplace_back("working_set_" + level.label, std::to_string(level.bytes));
  }
  for (auto &fact : machine_state(topology.pinned_cpu)) facts.push_back(std::move(fact));
  for (const auto &[name, value] : facts) benchmark::AddCustomContext(name, value);
}

std::string state_afterwards(const Plan &plan, const std::vector<ScalingRow> &scaling) {
  return "{\n    \"load_avg\": " + std::to_string(load_average()) +
         ",\n    \"clock_ghz\": " + std::to_string(measured_clock(plan.isas.back())) +
         ",\n    \"scaling\": " + scaling_json(scaling) + "\n  }";
}

}  // namespace rapt::bench
