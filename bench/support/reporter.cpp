#include "support/reporter.hpp"

#include <fmt/format.h>

#include <utility>

namespace rapt::bench {

Reporter::Reporter(Suite &suite, std::vector<Case *> cases, double expected_seconds)
    : suite_(suite), cases_(std::move(cases)), expected_seconds_(expected_seconds) {
  for (std::size_t i = 0; i < cases_.size(); ++i) index_of_[cases_[i]->name] = i;
}

bool Reporter::ReportContext(const Context &) {
  fmt::print(stderr, "rapt_bench: {} benchmarks, some {:.0f} s\n", cases_.size(), expected_seconds_);
  progress_.show(cases_.front()->name, 0, cases_.size());
  return true;
}

void Reporter::ReportRuns(const std::vector<Run> &runs) {
  const std::size_t unknown = cases_.size();
  std::size_t finished = unknown;
  double wall = 0, cpu = 0;
  for (const Run &run : runs) {
    if (run.run_type != Run::RT_Iteration || run.iterations == 0) continue;  // skips mean, median, ...
    const auto found = index_of_.find(run.run_name.function_name);
    if (found == index_of_.end()) continue;
    finished = found->second;
    // CPU time excludes the time slices of other processes on the CPU.
    cases_[finished]->seconds.push_back(run.cpu_accumulated_time / static_cast<double>(run.iterations));
    wall += run.real_accumulated_time;
    cpu += run.cpu_accumulated_time;
  }
  if (finished == unknown) return;
  cases_[finished]->wall_over_cpu = wall / cpu;
  suite_.finished(*cases_[finished]);
  progress_.show(finished + 1 < cases_.size() ? cases_[finished + 1]->name : "", ++done_, cases_.size());
}

void Reporter::Finalize() { progress_.clear(); }

JsonReporter::JsonReporter(const std::vector<Case *> &cases, std::function<std::string()> conclude)
    : conclude_(std::move(conclude)) {
  for (const Case *one : cases) case_of_[one->name] = one;
}

void JsonReporter::Finalize() {
  const std::string after = conclude_();
  for (std::vector<Run> &runs : runs_) {
    for (Run &run : runs) {
      const auto found = case_of_.find(run.run_name.function_name);
      if (run.run_type != Run::RT_Iteration || found == case_of_.end()) continue;
      const Case &one = *found->second;
      if (one.kernel == limit_kernel) continue;
      run.counters["limit_s"] = one.has_share() ? one.bound.seconds : 0;
      run.counters["uops"] = one.bound.uops;
      run.report_label = one.bound.resource;
    }
    benchmark::JSONReporter::ReportRuns(runs);
  }
  GetOutputStream() << "\n  ],\n  \"after\": " << after << "\n}\n";
}

}  // namespace rapt::bench
