#include "support/summary.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <utility>

#include "rapt/rapt.h"
#include "support/limit_cases.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

constexpr int kernel_width = 23;

// Beside what is not to be believed.
constexpr const char *mark = "!";

// Whether the size is how the level table shows the kernel in a level.
bool shows_level(const std::string &size, const WorkingSet &level) {
  return size == level.label || size == "cols:1024:" + level.label || size == "dim:128:" + level.label;
}

bool shows_a_level(const std::string &size, const Plan &plan) {
  return std::any_of(plan.levels.begin(), plan.levels.end(),
                     [&size](const WorkingSet &level) { return shows_level(size, level); });
}

// The measured cases, by kernel.
class Results {
 public:
  Results(const Plan &plan, const std::vector<Case *> &cases) : plan_(plan) {
    for (const Case *one : cases) {
      if (one->kernel == limit_kernel || !one->measured()) continue;
      if (kernels_.empty() || kernels_.back() != one->kernel) kernels_.push_back(one->kernel);
      by_kernel_[one->kernel].push_back(one);
    }
  }

  const std::vector<std::string> &kernels() const { return kernels_; }
  const std::vector<const Case *> &of(const std::string &kernel) const { return by_kernel_.at(kernel); }

  const Case *rapt(const std::string &kernel, const std::string &isa, const std::string &size) const {
    for (const Case *one : of(kernel)) {
      if (!one->is_peer && one->isa == isa && one->size == size) return one;
    }
    return nullptr;
  }
  const Case *rapt(const std::string &kernel, const std::string &isa, const WorkingSet &level) const {
    for (const Case *one : of(kernel)) {
      if (!one->is_peer && one->isa == isa && shows_level(one->size, level)) return one;
    }
    return nullptr;
  }

  // The fastest peer at the same size among those that the instruction set is compared with: its own, and
  // with the strongest one all.
  const Case *best_peer(const Case &own, double largest_error = HUGE_VAL) const {
    const Case *best = nullptr;
    for (const Case *one : of(own.kernel)) {
      if (!one->is_peer || one->size != own.size || !(one->error <= largest_error)) continue;
      if (one->isa != own.isa && own.isa != plan_.isas.back()) continue;
      if (!best || one->median() < best->median()) best = one;
    }
    return best;
  }

  // How many times faster than the scalar level; 0 if that is unknown.
  double speed_up(const Case &own) const {
    const Case *scalar = rapt(own.kernel, "scalar", own.size);
    return scalar ? scalar->median() / own.median() : 0;
  }

 private:
  const Plan &plan_;
  std::vector<std::string> kernels_;
  std::map<std::string, std::vector<const Case *>> by_kernel_;
};

// The library, with its instruction set where that is not `isa`.
std::string peer_name(const Case &peer, const std::string &isa) {
  if (peer.isa != isa) return peer.implementation;
  return peer.implementation.substr(0, peer.implementation.size() - isa.size() - 1);
}

double nanoseconds_an_element(const Case &one) {
  return one.median() / static_cast<double>(one.work.elements) * 1e9;
}

std::string rate_text(const Case &one) {
  return one.work.multiply_adds ? number(2 / nanoseconds_an_element(one))
                                : number(nanoseconds_an_element(one));
}

std::string share_text(const Case &one) {
  const std::string share = one.bound.seconds > 0 ? text("%.0f%%", 100 * one.share()) : "-";
  return share + (one.doubts.empty() ? " " : mark);
}

std::string speed_up_text(double speed_up) {
  return speed_up > 0 ? text("%.*fx", speed_up < 10 ? 2 : 1, speed_up) : "-";
}

// For each instruction set, of the kernels' speed-ups in the first level.
void print_mean_speed_ups(const Plan &plan, const Results &results) {
  std::vector<std::string> means;
  for (const std::string &isa : plan.isas) {
    double log_sum = 0;
    int count = 0;
    for (const std::string &kernel : results.kernels()) {
      const Case *one = results.rapt(kernel, isa, plan.levels[0]);
      const double speed_up = one ? results.speed_up(*one) : 0;
      if (isa == "scalar" || speed_up <= 0) continue;
      log_sum += std::log(speed_up);
      ++count;
    }
    if (count > 0) means.push_back(isa + " " + speed_up_text(std::exp(log_sum / count)));
  }
  if (!means.empty()) std::printf("Geometric mean of the speed-ups at L1: %s.\n", join(means).c_str());
}

// Each implementation's error; once for a library whose instruction sets agree.
std::string errors_text(const std::vector<const Case *> &cases) {
  std::vector<std::string> libraries;
  std::map<std::string, std::map<std::string, double>> errors;  // by library and instruction set
  for (const Case *one : cases) {
    const std::string library = one->is_peer ? peer_name(*one, one->isa) : "rapt";
    if (errors[library].empty()) libraries.push_back(library);
    errors[library][one->isa] = one->error;
  }
  std::vector<std::string> texts;
  for (const std::string &library : libraries) {
    const auto &by_isa = errors[library];
    const double first = by_isa.begin()->second;
    if (std::all_of(by_isa.begin(), by_isa.end(), [first](const auto &one) { return one.second == first; })) {
      texts.push_back(library + " " + number(first));
    } else {
      for (const auto &[isa, error] : by_isa) texts.push_back(library + "-" + isa + " " + number(error));
    }
  }
  return join(texts);
}

// What an option costs: "softcap" of "prefill:d64:t1024:softcap" beside the size without it, the geometric
// mean over the sizes that have one.
std::string costs_of_options(const Results &results, const std::string &kernel, const std::string &isa) {
  std::vector<std::string> options;
  std::map<std::string, std::pair<double, int>> sums;  // of logarithms
  for (const Case *one : results.of(kernel)) {
    const std::size_t colon = one->size.rfind(':');
    if (one->is_peer || one->isa != isa || colon == std::string::npos) continue;
    const Case *plain = results.rapt(kernel, isa, one->size.substr(0, colon));
    const std::string option = one->size.substr(colon + 1);
    if (!plain || option == "causal") continue;  // which is less work
    auto &[sum, count] = sums[option];
    if (count == 0) options.push_back(option);
    sum += std::log(one->median() / plain->median());
    ++count;
  }
  std::vector<std::string> costs;
  for (const std::string &option : options) {
    const auto [sum, count] = sums[option];
    costs.push_back(option + text(" %.2f", std::exp(sum / count)));
  }
  return join(costs);
}

void print_rule(int width) { print_line(std::string(static_cast<std::size_t>(width), '-')); }

void print_shape_table(const Plan &plan, const Results &results, const std::string &kernel,
                       const std::vector<std::string> &sizes, const std::vector<std::string> &isas) {
  constexpr int time_width = 9, rate_width = 9, share_width = 7, ratio_width = 7, peer_width = 13;
  const bool multiply_adds = results.of(kernel).front()->work.multiply_adds;
  const int size_width = multiply_adds ? 30 : 23;
  std::string headings = left(kernel, size_width);
  for (const std::string &isa : isas) {
    headings += right(isa, time_width) + right(multiply_adds ? "GFLOP/s" : "ns/elem", rate_width) +
                right("share ", share_width);
    if (plan.peers) headings += right("ratio", ratio_width) + " " + left("best peer", peer_width);
  }
  std::puts("");
  print_line(headings);
  print_rule(static_cast<int>(headings.size()));
  for (const std::string &size : sizes) {
    std::string line = left(size, size_width);
    for (const std::string &isa : isas) {
      const Case *own = results.rapt(kernel, isa, size);
      const Case *peer = own ? results.best_peer(*own) : nullptr;
      line += right(own ? time_text(own->median()) : "-", time_width) +
              right(own ? rate_text(*own) : "-", rate_width) +
              right(own ? share_text(*own) : "- ", share_width);
      if (!plan.peers) continue;
      line += right(peer ? text("%.2f", peer->median() / own->median()) : "", ratio_width) + " " +
              left(peer ? peer_name(*peer, isa) : "", peer_width);
    }
    print_line(line);
  }
}

}  // namespace

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
  print_fact("ISAs", join(plan.isas));
  if (!conditions.environment.empty()) print_fact("", conditions.environment);
  for (const std::string &skipped : conditions.skipped) print_fact("", "skipped: " + skipped);
  print_fact(
      "scalar",
      "is the reference, built for any CPU of this architecture: it may lack fused multiply-add and call "
      "libm for each one, so a speed-up over it is not one over a compiler's own vector code");
  print_fact("each number",
             text("the median of %d repetitions of at least %g s CPU time; of a limit the best",
                  conditions.repetitions, conditions.min_time));
  if (conditions.load >= 0) {
    print_fact("",
               text("load average %.1f on %d CPUs when the run began", conditions.load, topology.cpu_count));
  }
  if (conditions.clock > 0) print_fact("clock", text("%.2f GHz when the run began", conditions.clock));
  print_fact("share",
             "of the limit: the larger of bytes / measured bandwidth of the level, and counted vector "
             "instructions / measured rate of FMA; divided by the time");
}

void print_limits(const Plan &plan, const Limits &limits, const std::vector<Inversion> &inverted) {
  constexpr int isa_width = 9, rate_width = 9;
  const auto is_inverted = [&inverted](const std::string &isa, const std::string &what) {
    return std::any_of(inverted.begin(), inverted.end(),
                       [&](const Inversion &one) { return one.limit == isa + " " + what; });
  };
  const std::vector<std::pair<const char *, const char *>> accesses = {
      {"load", "load"}, {"store", "store"}, {"copy", "copy"}, {"copy_nt", "copy NT"}, {"update", "in place"}};
  const auto cell = [&](const std::string &isa, const std::string &what, double unit) {
    const double rate = limits.rate(isa, what);
    return right((rate > 0 ? number(rate / unit) : "-") + (is_inverted(isa, what) ? mark : " "), rate_width);
  };
  const auto heading = [](const std::string &title) { return right(title + " ", rate_width); };

  std::puts("\nLimits of this machine, the best of the whole run.\n");
  print_line(left("isa", isa_width) + heading("clock") + heading("f32 FMA") + heading("f64 FMA") +
             heading("a cycle"));
  print_line(left("", isa_width) + heading("GHz") + heading("GFLOP/s") + heading("GFLOP/s") + heading("FMA"));
  print_rule(isa_width + 4 * rate_width);
  for (const std::string &isa : plan.isas) {
    const double clock = limits.rate(isa, "clock");
    const double multiply_adds = limits.rate(isa, "fma_f32") / operations_of_fma(isa, sizeof(float));
    print_line(left(isa, isa_width) + cell(isa, "clock", 1e9) + cell(isa, "fma_f32", 1e9) +
               cell(isa, "fma_f64", 1e9) + heading(clock > 0 ? number(multiply_adds / clock) : "-"));
  }

  std::puts("\nBandwidth, GB/s, reads and writes together.\n");
  std::string headings = left("isa", isa_width) + left("level", 6);
  for (const auto &[name, title] : accesses) headings += heading(title);
  print_line(headings);
  print_rule(static_cast<int>(headings.size()));
  for (const std::string &isa : plan.isas) {
    std::string name_of_isa = isa;
    for (const WorkingSet &level : plan.levels) {
      std::string line = left(name_of_isa, isa_width) + left(level.label, 6);
      bool any = false;
      for (const auto &[name, title] : accesses) {
        const std::string what = name + (":" + level.label);
        any |= limits.rate(isa, what) > 0;
        line += cell(isa, what, 1e9);
      }
      if (!any) continue;
      print_line(line);
      name_of_isa.clear();
    }
  }
}

void print_level_table(const Plan &plan, const std::vector<Case *> &cases) {
  const Results results(plan, cases);
  constexpr int isa_width = 10, cell_width = 7, share_width = 6, ratio_width = 8;
  const int levels = static_cast<int>(plan.levels.size());
  std::string times, shares;
  for (const WorkingSet &level : plan.levels) {
    times += right(level.label, cell_width);
    shares += right(level.label + " ", share_width);
  }

  bool inherited = false;
  bool begun = false;
  for (const std::string &kernel : results.kernels()) {
    bool named = false;
    for (const std::string &isa : plan.isas) {
      std::string nanoseconds, share;
      const Case *first = nullptr;
      for (const WorkingSet &level : plan.levels) {
        const Case *found = results.rapt(kernel, isa, level);
        nanoseconds += right(found ? number(nanoseconds_an_element(*found)) : "-", cell_width);
        share += right(found ? share_text(*found) : "- ", share_width);
        if (!first) first = found;
      }
      if (!first) continue;
      if (!begun) {
        begun = true;
        std::puts("");
        print_line(left("", isa_width) + centre("ns per element", cell_width * levels) + " " +
                   centre("share of the limit", share_width * levels) + right("over", ratio_width) +
                   (plan.peers ? right("best", ratio_width) : ""));
        print_line(left("", isa_width) + times + " " + shares + right("scalar", ratio_width) +
                   (plan.peers ? right("peer", ratio_width) : ""));
        print_rule(isa_width + levels * (cell_width + share_width) + 1 + (plan.peers ? 2 : 1) * ratio_width);
      }
      if (!named) print_line(kernel);
      named = true;
      const bool foreign = first->served_by != isa;
      inherited |= foreign;
      const Case *peer = results.best_peer(*first);
      print_line(left("  " + isa + (foreign ? "*" : ""), isa_width) + nanoseconds + " " + share +
                 right(isa == "scalar" ? "" : speed_up_text(results.speed_up(*first)), ratio_width) +
                 right(peer ? speed_up_text(peer->median() / first->median()) : "", ratio_width));
    }
  }
  if (!begun) return;
  std::puts("");
  if (inherited) std::puts("* has no code of its own for the kernel: a lower instruction set's serves.");
  const std::string &first_level = plan.levels[0].label;
  std::printf("Rows have 1024 columns, those of dot_rows 128. Over scalar is at %s.\n", first_level.c_str());
  if (plan.peers) std::printf("Best peer: its time over rapt's, at %s.\n", first_level.c_str());
  print_mean_speed_ups(plan, results);
}

void print_shape_tables(const Plan &plan, const std::vector<Case *> &cases) {
  const Results results(plan, cases);
  for (const std::string &kernel : results.kernels()) {
    // What fits the page: the two strongest of those that were measured; with peers a table each.
    std::vector<std::string> isas;
    for (const std::string &isa : plan.isas) {
      const auto &all = results.of(kernel);
      if (std::any_of(all.begin(), all.end(),
                      [&isa](const Case *one) { return !one->is_peer && one->isa == isa; })) {
        isas.push_back(isa);
      }
    }
    if (isas.size() > 2) isas.erase(isas.begin(), isas.end() - 2);

    std::vector<std::string> sizes;
    for (const Case *one : results.of(kernel)) {
      if (!shows_a_level(one->size, plan) && (sizes.empty() || sizes.back() != one->size)) {
        sizes.push_back(one->size);
      }
    }
    if (sizes.empty()) continue;
    if (plan.peers) {
      for (const std::string &isa : isas) print_shape_table(plan, results, kernel, sizes, {isa});
    } else {
      print_shape_table(plan, results, kernel, sizes, isas);
    }
    if (!results.of(kernel).front()->work.multiply_adds) continue;
    bool begun = false;
    for (const std::string &isa : isas) {
      const std::string costs = costs_of_options(results, kernel, isa);
      if (costs.empty()) continue;
      if (!begun) std::printf("\n%s, the time with an option over that without:\n", kernel.c_str());
      begun = true;
      print_fact(isa.c_str(), costs);
    }
  }
  if (plan.peers) std::puts("\nratio: the best peer's time over rapt's; above 1 rapt is faster.");
}

void print_accuracy(const Plan &plan, const std::vector<Case *> &cases) {
  const Results results(plan, cases);
  if (results.kernels().empty()) return;
  std::puts(
      "\nLargest error: exp, exp_sum, scale in ULP, others in 2^-24 or 2^-53 of what\nrapt.h relates it "
      "to.\n");
  for (const std::string &kernel : results.kernels()) {
    print_fact(kernel.c_str(), errors_text(results.of(kernel)), kernel_width);
  }

  if (!plan.peers) return;
  for (const char *kernel : {"exp_f32", "exp_f64"}) {
    if (std::find(results.kernels().begin(), results.kernels().end(), kernel) == results.kernels().end())
      continue;
    for (const std::string &isa : plan.isas) {
      const Case *own = results.rapt(kernel, isa, plan.levels[0]);
      const Case *peer = own ? results.best_peer(*own, 1) : nullptr;
      if (!peer) continue;
      std::printf("%s at L1, %s: the fastest peer within 1 ULP is\n  %s, %.2f times rapt's time.\n", kernel,
                  isa.c_str(), peer->implementation.c_str(), peer->median() / own->median());
    }
  }
}

void print_spread(const std::vector<Case *> &cases) {
  std::vector<const Case *> sorted;
  for (const Case *one : cases) {
    if (one->measured()) sorted.push_back(one);
  }
  if (sorted.empty()) return;
  std::sort(sorted.begin(), sorted.end(),
            [](const Case *a, const Case *b) { return a->spread() < b->spread(); });
  std::printf(
      "\nQuartiles of the repetitions lie %.1f%% apart in the median row, %.0f%% in the\nworst: %s.\n",
      100 * sorted[sorted.size() / 2]->spread(), 100 * sorted.back()->spread(), sorted.back()->name.c_str());
}

}  // namespace rapt::bench
