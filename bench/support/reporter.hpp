// Copies Google Benchmark's results into the suite's cases and into the JSON, and shows progress.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/progress.hpp"
#include "support/suite.hpp"

namespace rapt::bench {

class Reporter : public benchmark::BenchmarkReporter {
 public:
  Reporter(Suite &suite, std::vector<Case *> cases, double expected_seconds);

  bool ReportContext(const Context &context) override;
  void ReportRuns(const std::vector<Run> &runs) override;
  void Finalize() override;

 private:
  Suite &suite_;
  std::vector<Case *> cases_;
  std::unordered_map<std::string, std::size_t> index_of_;
  double expected_seconds_;
  Progress progress_{"rapt_bench"};
  std::size_t done_ = 0;
};

// Writes Google Benchmark's JSON at the end of the run, because the JSON needs the best limits of the whole
// run. After the benchmarks, the JSON has one more member: "after", a JSON object.
class JsonReporter : public benchmark::JSONReporter {
 public:
  // conclude() makes the last measurements and returns the value of "after".
  JsonReporter(const std::vector<Case *> &cases, std::function<std::string()> conclude);

  void ReportRuns(const std::vector<Run> &runs) override { runs_.push_back(runs); }
  void Finalize() override;

 private:
  std::unordered_map<std::string, const Case *> case_of_;
  std::function<std::string()> conclude_;
  std::vector<std::vector<Run>> runs_;
};

}  // namespace rapt::bench
