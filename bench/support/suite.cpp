#include "support/suite.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace rapt::bench {
namespace {

void force_isa(const std::string &isa) { require_ok(rapt_force_isa(isa.c_str())); }

// Calls rapt_kernel_isa(), which makes rapt ask Linux for permission to use AMX tiles.
bool may_use_tiles(const std::string &isa) {
  const std::string before = rapt_active_isa();
  const char *const tiles = "attention_in_bf16";
  const bool may = rapt_force_isa(isa.c_str()) == RAPT_OK && rapt_kernel_isa(tiles) == isa;
  force_isa(before);
  return may;
}

double minimum(const std::vector<double> &values) { return *std::min_element(values.begin(), values.end()); }

}  // namespace

void require_ok(rapt_status status) {
  if (status != RAPT_OK) [[unlikely]]
    throw std::runtime_error(rapt_status_text(status));
}

Suite::Suite(Plan plan)
    : plan_(std::move(plan)),
      limits_(plan_.working_sets),
      beside_(plan_.working_sets),
      meter_(limit_cases(plan_.isas, plan_.working_sets, may_use_tiles)) {}

bool Suite::wants(const Case &one) const {
  if (plan_.filter && !std::regex_search(one.name, *plan_.filter)) return false;
  if (std::find(plan_.isas.begin(), plan_.isas.end(), one.isa) == plan_.isas.end()) return false;
  if (one.isa != "scalar" || one.is_peer) return true;
  // The scalar level is the reference and is slow, so it runs only sizes that fit the L2 cache and take at
  // most a few milliseconds.
  constexpr std::size_t beyond_l2 = 2;
  constexpr double many = 1 << 25;
  return limits_.memory_level(one.work.footprint()) < beyond_l2 &&
         static_cast<double>(one.work.elements) * one.work.uops_per_vector.all < many;
}

void Suite::add(Case one, Body body, std::function<double()> error) {
  one.name = one.kernel + "/" + one.implementation + "/" + one.size;
  if (!wants(one)) return;
  one.served_by = one.isa;
  if (!one.is_peer) {
    force_isa(one.isa);
    const std::string served = one.kernel.substr(0, one.kernel.find(':'));  // of map_f32:log, map_f32
    if (const char *level = rapt_kernel_isa(served.c_str())) one.served_by = level;
    // Code that a level inherits from a weaker level is timed only on the weaker level.
    const std::vector<std::string> &isas = plan_.isas;
    if (one.served_by != one.isa && std::find(isas.begin(), isas.end(), one.served_by) != isas.end()) return;
  }
  entries_.push_back({std::move(one), std::move(body), std::move(error)});
}

// Adds the limits that the filter matches, and the limits that the bound of any case needs.
void Suite::add_limits() {
  std::set<std::pair<std::string, std::string>> needed;
  for (const Entry &entry : entries_) {
    for (std::string &what : limits_.needed_for(entry.one.work))
      needed.insert({entry.one.isa, std::move(what)});
  }
  for (const LimitCase &limit : meter_.cases()) {
    Case one;
    one.kernel = limit_kernel;
    one.implementation = one.isa = limit.isa;
    one.size = limit.what;
    one.name = one.kernel + "/" + one.isa + "/" + one.size;
    const bool named = !plan_.filter || std::regex_search(one.name, *plan_.filter);
    const bool is_clock = limit.what == "clock" && !entries_.empty();
    if (!named && !is_clock && !needed.count({limit.isa, limit.what})) continue;

    limit_entries_.push_back({std::move(one), nullptr, nullptr});
    Entry &entry = limit_entries_.back();
    const bool bytes = limit.what.find(':') != std::string::npos;
    entry.body = [this, &entry, &limit, bytes](benchmark::State &state) {
      if (limits_.rate(limit.isa, limit.what) == 0)  // the fastest loop is not known yet
        limits_.record(limit.isa, limit.what, meter_.measure(limit.isa, limit.what));
      double amount = meter_.pass(limit);  // allocates and warms the memory
      for (auto _ : state) {
        amount = meter_.pass(limit);
        benchmark::ClobberMemory();
      }
      (bytes ? entry.one.work.read : entry.one.work.elements) = static_cast<std::size_t>(amount);
    };
  }
}

void Suite::run(Entry &entry, benchmark::State &state) {
  Case &one = entry.one;
  if (one.kernel != limit_kernel) {
    if (!one.is_peer) force_isa(one.isa);
    if (entry.error) {
      const auto [error, is_new] = errors_.try_emplace(one.kernel + "/" + one.implementation, 0);
      if (is_new) error->second = entry.error();
      one.error = error->second;
    }
    if (running_ != &one) {
      running_ = &one;
      beside_ = Limits(plan_.working_sets);
      measure_limits_beside(one);
    }
  }
  entry.body(state);

  if (one.work.elements > 0) {
    state.counters["elements"] = static_cast<double>(one.work.elements);
    state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(one.work.elements));
  }
  if (one.work.bytes() > 0) {
    state.counters["bytes"] = static_cast<double>(one.work.bytes());
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(one.work.bytes()));
  }
  if (one.kernel == limit_kernel) return;
  if (one.work.multiply_adds) state.counters["flop"] = 2 * static_cast<double>(one.work.elements);
  if (one.error && std::isfinite(*one.error)) state.counters["error"] = *one.error;
}

void Suite::measure_limits_beside(const Case &one) {
  std::vector<std::string> names = limits_.needed_for(one.work);
  names.push_back("clock");
  for (const std::string &what : names) {
    const double rate = meter_.measure_again(one.isa, what);
    beside_.record(one.isa, what, rate);
    limits_.record(one.isa, what, rate);
  }
}

std::vector<Case *> Suite::schedule() {
  add_limits();
  std::vector<Case *> cases;
  for (std::deque<Entry> *entries : {&limit_entries_, &entries_}) {
    for (Entry &entry : *entries) {
      benchmark::RegisterBenchmark(entry.one.name.c_str(),
                                   [this, &entry](benchmark::State &state) { run(entry, state); })
          ->ComputeStatistics("min", minimum)
          ->ComputeStatistics("spread", quartile_spread, benchmark::kPercentage);
      cases.push_back(&entry.one);
    }
  }
  return cases;
}

void Suite::finished(Case &one) {
  if (one.kernel == limit_kernel) {
    const std::size_t amount = one.work.bytes() > 0 ? one.work.bytes() : one.work.elements;
    limits_.record(one.isa, one.size, static_cast<double>(amount) / one.best());
    return;
  }
  measure_limits_beside(one);
  one.beside = beside_.bound(one.isa, one.work);
}

void Suite::conclude() {
  // Measures all limits once more. Limits that only few kernels need were measured seldom, so they may lack a
  // good measurement.
  for (const Entry &limit : limit_entries_) {
    limits_.record(limit.one.isa, limit.one.size, meter_.measure(limit.one.isa, limit.one.size));
  }
  std::vector<std::string> memory_levels;
  for (const WorkingSet &set : plan_.working_sets) memory_levels.push_back(set.label);
  inverted_limits_ = inversions(limits_.rates(), plan_.isas, memory_levels);
  Limits raised = limits_;
  raised.raise_to_weaker(plan_.isas);
  for (Entry &entry : entries_) {
    Case &one = entry.one;
    if (!one.measured()) continue;
    one.bound = raised.bound(one.isa, one.work);
    one.doubts = doubts(observation_of(one, limits_.bound(one.isa, one.work).seconds));
  }
}

void register_all(Suite &suite) {
#define KERNEL(name, ...)    \
  suite.begin_kernel(#name); \
  register_##name(suite);
#include "kernels/kernels.def"
#undef KERNEL
}

}  // namespace rapt::bench
