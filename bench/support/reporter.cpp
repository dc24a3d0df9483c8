#include "support/reporter.hpp"

namespace rapt::bench {

Reporter::Reporter(Suite &suite, std::vector<Case *> cases, double expected_seconds)
    : suite_(suite), cases_(std::move(cases)), progress_(cases_.size(), expected_seconds) {
  for (std::size_t i = 0; i < cases_.size(); ++i) index_of_[cases_[i]->name] = i;
}

bool Reporter::ReportContext(const Context &) {
  progress_.begin(cases_.front()->name);
  return true;
}

void Reporter::ReportRuns(const std::vector<Run> &runs) {
  const std::size_t unknown = cases_.size();
  std::size_t finished = unknown;
  for (const Run &run : runs) {
    if (run.run_type != Run::RT_Iteration || run.iterations == 0) continue;  // mean, median and the like
    const auto found = index_of_.find(run.run_name.function_name);
    if (found == index_of_.end()) continue;
    finished = found->second;
    // CPU time: what runs on the machine beside this is not in it.
    cases_[finished]->seconds.push_back(run.cpu_accumulated_time / static_cast<double>(run.iterations));
  }
  if (finished == unknown) return;
  suite_.finished(*cases_[finished]);
  progress_.finished_one(finished + 1 < cases_.size() ? cases_[finished + 1]->name : "");
}

void Reporter::Finalize() { progress_.clear(); }

void JsonReporter::Finalize() { GetOutputStream() << "\n  ],\n  \"after\": " << after_() << "\n}\n"; }

}  // namespace rapt::bench
