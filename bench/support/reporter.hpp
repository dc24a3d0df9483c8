// Takes Google Benchmark's results into the suite's cases, and shows progress meanwhile.
#pragma once

#include <benchmark/benchmark.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "support/progress.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

// A case's time is its best repetition, by CPU time: what else runs on the machine can only slow a kernel
// down.
class Reporter : public benchmark::BenchmarkReporter {
 public:
  explicit Reporter(std::vector<Case> &cases);

  bool ReportContext(const Context &context) override;
  void ReportRuns(const std::vector<Run> &runs) override;
  void Finalize() override;

 private:
  std::vector<Case> &cases_;
  std::unordered_map<std::string, std::size_t> index_of_;
  Progress progress_;
};

}  // namespace rapt::bench
