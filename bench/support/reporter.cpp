#include "support/reporter.hpp"

namespace rapt::bench {

Reporter::Reporter(std::vector<Case> &cases) : cases_(cases), progress_(cases.size()) {
  for (std::size_t i = 0; i < cases.size(); ++i) index_of_[cases[i].name] = i;
}

bool Reporter::ReportContext(const Context &) {
  progress_.begin(cases_.front().name);
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
    const double seconds = run.cpu_accumulated_time / static_cast<double>(run.iterations);
    Case &measured = cases_[finished];
    if (measured.seconds == 0 || seconds < measured.seconds) measured.seconds = seconds;
  }
  if (finished != unknown) {
    progress_.finished_one(finished + 1 < cases_.size() ? cases_[finished + 1].name : "");
  }
}

void Reporter::Finalize() { progress_.clear(); }

}  // namespace rapt::bench
