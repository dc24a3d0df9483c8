#include "support/limit_cases.hpp"

#include <time.h>

#include <algorithm>

#include "limits/loops.hpp"
#include "support/limits.hpp"

namespace rapt::bench {
namespace {

using Pass = std::function<double(char *)>;

Pass rate_of(std::size_t (*run)(), double worth) {
  return [run, worth](char *) { return static_cast<double>(run()) * worth; };
}

// Returns how many passes make the call overhead negligible, even for short passes over a small cache.
std::size_t passes_over(std::size_t working_set) { return 1 + (std::size_t{1} << 20) / working_set; }

// Runs passes over one buffer. Each pass accesses each byte `accesses` times.
template <class Run>
Pass one_buffer(std::size_t working_set, Run run, double accesses = 1) {
  const std::size_t bytes = working_set / limit_block * limit_block;
  return [=](char *memory) {
    const std::size_t passes = passes_over(working_set);
    for (std::size_t pass = 0; pass < passes; ++pass) run(memory, bytes);
    return accesses * static_cast<double>(passes * bytes);
  };
}

template <class Run>
Pass two_buffers(std::size_t working_set, Run run) {
  const std::size_t bytes = working_set / 2 / limit_block * limit_block;
  return [=](char *memory) {
    const std::size_t passes = passes_over(working_set);
    for (std::size_t pass = 0; pass < passes; ++pass) run(memory, memory + bytes, bytes);
    return 2 * static_cast<double>(passes * bytes);
  };
}

double seconds_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas, const std::vector<WorkingSet> &sets,
                                   MayUseTiles may_use_tiles) {
  std::vector<LimitCase> cases;
  for (const std::string &isa : isas) {
    const LimitLoops *loops = limit_loops(isa);
    if (!loops) continue;
    const auto add_rate = [&](const char *what, std::size_t (*run)(), double worth) {
      cases.push_back({isa, what, 0, {rate_of(run, worth)}});
    };
    add_rate("fma_f32", loops->fma_f32, operations_of_fma(isa, sizeof(float)));
    add_rate("fma_f64", loops->fma_f64, operations_of_fma(isa, sizeof(double)));
    add_rate("fma_add_f32", loops->fma_add_f32, operations_of_fma_add(isa, sizeof(float)));
    add_rate("fma_add_f64", loops->fma_add_f64, operations_of_fma_add(isa, sizeof(double)));
    add_rate("clock", loops->clock, 1);
    if (loops->products_i8) add_rate("products_i8", loops->products_i8, operations_of_fma(isa, 1));
    if (loops->products_bf16 && may_use_tiles(isa))
      add_rate("products_bf16", loops->products_bf16, 2 * tile_of_bf16);
    for (std::size_t level = 0; level < sets.size(); ++level) {
      const std::size_t bytes = sets[level].bytes;
      const auto add = [&](const char *access, std::vector<Pass> ways) {
        cases.push_back({isa, access + (":" + sets[level].label), bytes, std::move(ways)});
      };
      // Outside a core's own caches, prefetching is faster on some CPUs and slower on others, so both loops
      // are measured.
      const auto both = [&](const auto &loop, const auto &pass_of) {
        std::vector<Pass> ways = {pass_of(loop[0])};
        if (level >= 2) ways.push_back(pass_of(loop[1]));
        return ways;
      };
      const auto once = [bytes](auto run) { return one_buffer(bytes, run); };
      const auto twice = [bytes](auto run) { return one_buffer(bytes, run, 2); };
      const auto between = [bytes](auto run) { return two_buffers(bytes, run); };
      add("load", both(loops->load, once));
      add("store", {once(loops->store)});
      add("copy", both(loops->copy, between));
      add("copy_nt", both(loops->copy_nt, between));
      add("update", both(loops->update, twice));
    }
  }
  return cases;
}

LimitMeter::LimitMeter(std::vector<LimitCase> cases)
    : cases_(std::move(cases)), passes_(cases_.size()), fastest_(cases_.size()) {
  for (std::size_t i = 0; i < cases_.size(); ++i) index_of_[{cases_[i].isa, cases_[i].what}] = i;
}

double LimitMeter::pass(const LimitCase &limit) {
  return pass(limit, fastest_[index_of_.at({limit.isa, limit.what})]);
}

double LimitMeter::pass(const LimitCase &limit, std::size_t way) {
  if (memory_.size() < limit.bytes) memory_ = Buffer<char>(limit.bytes);
  if (place_ + limit.bytes > memory_.size()) place_ = 0;
  return limit.ways[way](memory_.data() + place_);
}

void LimitMeter::move(const LimitCase &limit) {
  constexpr std::size_t page = 4096;
  place_ += (limit.bytes + page - 1) / page * page;
}

double LimitMeter::measure(const std::string &isa, const std::string &what) {
  const auto found = index_of_.find({isa, what});
  return found == index_of_.end() ? 0 : measure(found->second, false);
}

double LimitMeter::measure_again(const std::string &isa, const std::string &what) {
  const auto found = index_of_.find({isa, what});
  return found == index_of_.end() ? 0 : measure(found->second, passes_[found->second] > 0);
}

double LimitMeter::measure(std::size_t index, bool again) {
  // An interval is much longer than reading the clock takes, and much shorter than the time slices of a busy
  // system.
  constexpr double interval = 100e-6, all_intervals = 1e-3;
  constexpr std::size_t least_intervals_each = 2, least_intervals = 3;
  const LimitCase &limit = cases_[index];
  std::size_t &passes = passes_[index], &fastest = fastest_[index];
  const std::size_t ways = limit.ways.size();
  const std::size_t least =
      again ? least_intervals_each : std::max(least_intervals, least_intervals_each * ways);
  move(limit);

  double best = 0, total = 0;
  for (std::size_t done = 0; done < least || total < all_intervals;) {
    const std::size_t way = again ? fastest : done % ways;
    const std::size_t count = std::max<std::size_t>(passes, 1);
    double amount = 0;
    const double wall_start = seconds_of(CLOCK_MONOTONIC), cpu_start = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    for (std::size_t i = 0; i < count; ++i) amount += pass(limit, way);
    const double cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu_start;
    const double wall = seconds_of(CLOCK_MONOTONIC) - wall_start;
    // A hypervisor may correct CPU time by as much as an interval, so only the wall clock never gives too
    // high a rate. A pass over memory is longer than the time slices of other processes, so CPU time measures
    // it better.
    const double seconds = cpu > all_intervals ? cpu : wall;
    if (passes == 0 || seconds < interval / 2) {  // cold memory slows the first pass
      passes = passes == 0 ? 1 : 2 * count;
      continue;
    }
    if (amount / seconds > best) {
      best = amount / seconds;
      fastest = way;
    }
    total += seconds;
    ++done;
  }
  return best;
}

}  // namespace rapt::bench
