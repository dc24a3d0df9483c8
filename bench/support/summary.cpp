// Prints the tables about the run as a whole: its conditions and limits, errors, and the spread of the
// repetitions.
#include "support/summary.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "rapt/rapt.h"
#include "support/measured.hpp"
#include "support/text.hpp"

namespace rapt::bench {

void print_conditions(const Conditions &conditions, const Plan &plan) {
  const Topology &topology = conditions.topology;
  std::vector<std::string> sets;
  for (const WorkingSet &set : plan.working_sets) sets.push_back(set.label + " " + size_text(set.bytes));

  print_line("rapt {} benchmarks\n", rapt_version());
  print_fact("CPU",
             topology.cpu_name + (topology.pinned ? fmt::format(", pinned to CPU {} of {}",
                                                                topology.pinned_cpu, topology.cpu_count)
                                                  : ", not pinned: the system does not allow it"));
  print_fact("caches", fmt::format("L1d {}, L2 {}, L3 {}, as hwloc reports them", size_text(topology.l1d),
                                   size_text(topology.l2), size_text(topology.l3)));
  print_fact("working sets", fmt::format("{} (inputs and outputs together)", fmt::join(sets, ", ")));
  if (topology.l3 > plan.working_sets.back().bytes / 4) {
    print_fact("", "the L3 is large beside these: mem may partly run from it");
  }
  print_fact("ISAs", fmt::format("{}", fmt::join(plan.isas, ", ")));
  for (const std::string &skipped : conditions.skipped) print_fact("", "skipped: " + skipped);
  print_fact("scalar",
             "is the reference, built for any CPU of this architecture: it may lack fused multiply-add and "
             "call libm instead. A speed-up over it is not one over a compiler's own vector code");
  print_fact("each number",
             fmt::format("the median of {} repetitions of at least {:g} s CPU time; of a limit the best",
                         conditions.repetitions, conditions.min_time));
  if (conditions.load >= 0) {
    print_fact("", fmt::format("load average {:.1f} on {} CPUs when the run began", conditions.load,
                               topology.cpu_count));
  }
  print_fact("share",
             "of the limit: the larger of bytes / measured bandwidth of the memory level, and counted vector "
             "instructions / measured rate of FMA, or of FMA and additions; divided by the time");
}

void print_limits(const Plan &plan, const Limits &limits, const std::vector<Inversion> &inverted) {
  const std::vector<std::pair<const char *, const char *>> accesses = {
      {"load", "load"}, {"store", "store"}, {"copy", "copy"}, {"copy_nt", "copy NT"}, {"update", "in place"}};
  const auto cell = [&](const std::string &isa, const std::string &what) {
    const double rate = limits.rate(isa, what);
    const bool is_inverted = std::any_of(inverted.begin(), inverted.end(),
                                         [&](const Inversion &one) { return one.limit == isa + " " + what; });
    return (rate > 0 ? number(rate / 1e9) : "-") + (is_inverted ? mark : " ");
  };

  constexpr const char *rates = "{:<12}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}{:>8}";
  print_line("\nLimits of this machine, the best of the whole run.\n");
  print_line(rates, "isa", "clock ", "f32 FMA ", "f64 FMA ", "f32 +add ", "i8 sums ", "bf16 tiles ",
             "FMA per");
  print_line(rates, "", "GHz ", "GFLOP/s ", "GFLOP/s ", "GFLOP/s ", "GOP/s ", "GFLOP/s ", "cycle");
  print_rule(77);
  for (const std::string &isa : plan.isas) {
    const double clock = limits.rate(isa, "clock");
    const double multiply_adds = limits.rate(isa, "fma_f32") / operations_of_fma(isa, sizeof(float));
    print_line(rates, isa, cell(isa, "clock"), cell(isa, "fma_f32"), cell(isa, "fma_f64"),
               cell(isa, "fma_add_f32"), cell(isa, "products_i8"), cell(isa, "products_bf16"),
               clock > 0 ? number(multiply_adds / clock) : "-");
  }

  print_line("\nBandwidth, GB/s, reads and writes together.\n");
  std::string headings = fmt::format("{:<12}{:<6}", "isa", "level");
  for (const auto &[name, title] : accesses) headings += fmt::format("{:>8} ", title);
  print_text(headings);
  print_rule(headings.size());
  for (const std::string &isa : plan.isas) {
    std::string name_of_isa = isa;
    for (const WorkingSet &set : plan.working_sets) {
      std::string line = fmt::format("{:<12}{:<6}", name_of_isa, set.label);
      bool any = false;
      for (const auto &[name, title] : accesses) {
        const std::string what = name + (":" + set.label);
        any |= limits.rate(isa, what) > 0;
        line += fmt::format("{:>9}", cell(isa, what));
      }
      if (!any) continue;
      print_text(line);
      name_of_isa.clear();
    }
  }
}

namespace {

// Returns the measured errors as text. A library has only one entry if its errors are equal for all
// instruction sets.
std::string errors_text(const std::vector<const Case *> &cases) {
  std::vector<std::string> libraries;
  std::map<std::string, std::map<std::string, double>> errors;  // by library and instruction set
  for (const Case *one : cases) {
    if (!one->error) continue;
    const std::string library = one->is_peer ? peer_name(*one, one->isa) : "rapt";
    if (errors[library].empty()) libraries.push_back(library);
    errors[library][one->isa] = *one->error;
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
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

void print_accuracy(const Plan &plan, const std::vector<Case *> &cases) {
  const Measured measured(plan, cases);
  const std::vector<std::string> &kernels = measured.kernels();
  if (kernels.empty()) return;
  print_line(
      "\nLargest error: exp, scale in ULP, others in 2^-24 or 2^-53 of what\nrapt.h relates it "
      "to.\n");
  for (const std::string &kernel : kernels) {
    const std::string errors = errors_text(measured.of(kernel));
    if (!errors.empty()) print_fact(kernel, errors, 23);
  }

  if (!plan.peers) return;
  for (const char *kernel : {"exp_f32", "exp_f64"}) {
    if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end()) continue;
    for (const std::string &isa : plan.isas) {
      const Case *own = measured.rapt(kernel, isa, plan.working_sets[0]);
      const Case *peer = own ? measured.best_peer(*own, 1) : nullptr;
      if (!peer) continue;
      print_line("{} at L1, {}: the fastest peer within 1 ULP is\n  {}, {:.2f} times rapt's time.", kernel,
                 isa, peer->implementation, ratio(*own, *peer));
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
  print_line("\nQuartiles of the repetitions lie {:.1f}% apart in the median row, {:.0f}% in the\nworst: {}.",
             100 * sorted[sorted.size() / 2]->spread(), 100 * sorted.back()->spread(), sorted.back()->name);
}

}  // namespace rapt::bench
