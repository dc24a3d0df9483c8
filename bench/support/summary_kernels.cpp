// Prints two kinds of tables: all kernels at every memory level, and each kernel at its other sizes.
#include <algorithm>
#include <map>

#include "support/measured.hpp"
#include "support/summary.hpp"
#include "support/text.hpp"

namespace rapt::bench {
namespace {

// Prints each instruction set's mean speed-up over the kernels at the first memory level.
void print_mean_speed_ups(const Plan &plan, const Measured &measured) {
  std::vector<std::string> means;
  for (const std::string &isa : plan.isas) {
    if (isa == "scalar") continue;
    GeometricMean mean;
    for (const std::string &kernel : measured.kernels()) {
      const Case *one = measured.rapt(kernel, isa, plan.working_sets[0]);
      const double speed_up = one ? measured.speed_up(*one) : 0;
      if (speed_up > 0) mean.add(speed_up);
    }
    if (!mean.empty()) means.push_back(isa + " " + speed_up_text(mean.value()));
  }
  if (!means.empty()) print_line("Geometric mean of the speed-ups at L1: {}.", fmt::join(means, ", "));
}

// Prints a kernel at every memory level, with a line per instruction set.
class LevelTable {
 public:
  LevelTable(const Plan &plan, const Measured &measured) : plan_(plan), measured_(measured) {}

  bool begun() const { return begun_; }
  bool inherited() const { return inherited_; }  // returns whether some level runs a lower level's code

  void print(const std::string &kernel) {
    bool named = false;
    for (const std::string &isa : plan_.isas) {
      std::string times, shares;
      const Case *first = nullptr;
      for (const WorkingSet &set : plan_.working_sets) {
        const Case *found = measured_.rapt(kernel, isa, set);
        times += fmt::format("{:>{}}", found ? number(ns_per_element(*found)) : "-", time_width);
        shares += fmt::format("{:>{}}", found ? share_text(*found) : "- ", share_width);
        if (!first) first = found;
      }
      if (!first) continue;
      if (!begun_) print_head();
      if (!named) print_text(kernel);
      named = true;
      const bool foreign = first->served_by != isa;
      inherited_ |= foreign;
      const Case *peer = measured_.best_peer(*first);
      print_line(line, "  " + isa + (foreign ? "*" : ""), times, shares,
                 isa == "scalar" ? "" : speed_up_text(measured_.speed_up(*first)),
                 peer ? speed_up_text(ratio(*first, *peer)) : "");
    }
  }

 private:
  static constexpr std::size_t time_width = 7, share_width = 6;
  static constexpr const char *line = "{:<10}{} {}{:>8}{:>8}";

  void print_head() {
    begun_ = true;
    const std::size_t sets = plan_.working_sets.size();
    std::string times, shares;
    for (const WorkingSet &set : plan_.working_sets) {
      times += fmt::format("{:>{}}", set.label, time_width);
      shares += fmt::format("{:>{}} ", set.label, share_width - 1);
    }
    print_text("");
    print_line(line, "", fmt::format("{:^{}}", "ns per element", time_width * sets),
               fmt::format("{:^{}}", "share of the limit", share_width * sets), "over",
               plan_.peers ? "best" : "");
    print_line(line, "", times, shares, "scalar", plan_.peers ? "peer" : "");
    print_rule(10 + sets * (time_width + share_width) + 1 + (plan_.peers ? 16 : 8));
  }

  const Plan &plan_;
  const Measured &measured_;
  bool begun_ = false, inherited_ = false;
};

void print_shape_table(const Plan &plan, const Measured &measured, const std::string &kernel,
                       const std::vector<std::string> &sizes, const std::vector<std::string> &isas) {
  const bool multiply_adds = measured.of(kernel).front()->work.multiply_adds;
  const int size_width = multiply_adds ? 30 : 23;
  constexpr const char *cells = "{:>9}{:>9}{:>7}", *peer_cells = "{:>7} {:<13}";
  std::string headings = fmt::format("{:<{}}", kernel, size_width);
  for (const std::string &isa : isas) {
    headings += fmt::format(cells, isa, multiply_adds ? "GFLOP/s" : "ns/elem", "share ");
    if (plan.peers) headings += fmt::format(peer_cells, "ratio", "best peer");
  }
  print_text("");
  print_text(headings);
  print_rule(headings.size());
  for (const std::string &size : sizes) {
    std::string line = fmt::format("{:<{}}", size, size_width);
    for (const std::string &isa : isas) {
      const Case *own = measured.rapt(kernel, isa, size);
      const Case *peer = own ? measured.best_peer(*own) : nullptr;
      if (own) {
        const double ns = ns_per_element(*own);
        // Between products, packing has only its bandwidth to show.
        const std::string speed =
            !multiply_adds ? number(ns)
            : own->work.multiply_adds
                ? number(2 / ns)
                : number(static_cast<double>(own->work.bytes()) / own->median() * 1e-9) + "GB/s";
        line += fmt::format(cells, time_text(own->median()), speed, share_text(*own));
      } else {
        line += fmt::format(cells, "-", "-", "- ");
      }
      if (!plan.peers) continue;
      line += fmt::format(peer_cells, peer ? fmt::format("{:.2f}", ratio(*own, *peer)) : "",
                          peer ? peer_name(*peer, isa) : "");
    }
    print_text(line);
  }
}

// Returns the cost of each option. For example, the time of "prefill:d64:t1024:softcap" is divided by the
// time without ":softcap". The cost is the geometric mean over the sizes that have the option.
std::string costs_of_options(const Measured &measured, const std::string &kernel, const std::string &isa) {
  std::vector<std::string> options;
  std::map<std::string, GeometricMean> means;
  for (const Case *one : measured.of(kernel)) {
    const std::size_t colon = one->size.rfind(':');
    if (one->is_peer || one->isa != isa || colon == std::string::npos) continue;
    const Case *plain = measured.rapt(kernel, isa, one->size.substr(0, colon));
    const std::string option = one->size.substr(colon + 1);
    if (!plain || option == "causal") continue;  // a causal call has less work to do
    GeometricMean &mean = means[option];
    if (mean.empty()) options.push_back(option);
    mean.add(one->median() / plain->median());
  }
  std::vector<std::string> costs;
  for (const std::string &option : options) {
    costs.push_back(fmt::format("{} {:.2f}", option, means[option].value()));
  }
  return fmt::format("{}", fmt::join(costs, ", "));
}

// Returns the two strongest levels that were measured; more would not fit the width.
std::vector<std::string> shown_isas(const Plan &plan, const std::vector<const Case *> &cases) {
  std::vector<std::string> isas;
  for (const std::string &isa : plan.isas) {
    const auto is_own = [&isa](const Case *one) { return !one->is_peer && one->isa == isa; };
    if (std::any_of(cases.begin(), cases.end(), is_own)) isas.push_back(isa);
  }
  if (isas.size() > 2) isas.erase(isas.begin(), isas.end() - 2);
  return isas;
}

// Returns the sizes that the level table does not show.
std::vector<std::string> other_sizes(const Plan &plan, const std::vector<const Case *> &cases) {
  std::vector<std::string> sizes;
  for (const Case *one : cases) {
    const auto shows = [one](const WorkingSet &set) { return shows_set(one->size, set); };
    if (std::any_of(plan.working_sets.begin(), plan.working_sets.end(), shows)) continue;
    if (sizes.empty() || sizes.back() != one->size) sizes.push_back(one->size);
  }
  return sizes;
}

}  // namespace

void print_level_table(const Plan &plan, const std::vector<Case *> &cases) {
  const Measured measured(plan, cases);
  LevelTable table(plan, measured);
  for (const std::string &kernel : measured.kernels()) table.print(kernel);
  if (!table.begun()) return;
  print_text("");
  if (table.inherited()) {
    print_line("* has no code for the kernel: that of a lower instruction set serves.");
  }
  const std::string &first = plan.working_sets[0].label;
  print_line("Rows have 1024 columns, those of dot_rows 128. linear has one row of x.");
  print_line("Over scalar is at {}, or at the first level that has a time.", first);
  if (plan.peers) print_line("Best peer: its time over rapt's, there.");
  print_mean_speed_ups(plan, measured);
}

void print_shape_tables(const Plan &plan, const std::vector<Case *> &cases) {
  const Measured measured(plan, cases);
  for (const std::string &kernel : measured.kernels()) {
    const std::vector<const Case *> &all = measured.of(kernel);
    const std::vector<std::string> isas = shown_isas(plan, all), sizes = other_sizes(plan, all);
    if (sizes.empty()) continue;
    if (plan.peers) {
      for (const std::string &isa : isas) print_shape_table(plan, measured, kernel, sizes, {isa});
    } else {
      print_shape_table(plan, measured, kernel, sizes, isas);
    }
    if (!all.front()->work.multiply_adds) continue;
    bool begun = false;
    for (const std::string &isa : isas) {
      const std::string costs = costs_of_options(measured, kernel, isa);
      if (costs.empty()) continue;
      if (!begun) print_line("\n{}, the time with an option over that without:", kernel);
      begun = true;
      print_fact(isa, costs);
    }
  }
  if (plan.peers) print_line("\nratio: the best peer's time over rapt's; above 1 rapt is faster.");
}

}  // namespace rapt::bench
