// Prints the report, and writes it as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "validate/check.hpp"
#include "validate/cpu_report.hpp"
#include "validate/decoder.hpp"
#include "validate/exhaustive.hpp"
#include "validate/options.hpp"

namespace rapt::validate {

struct Row {
  LevelResult result;
  std::optional<std::uint64_t> published;  // empty if no hash is published for this run

  bool holds() const { return result.holds(published); }
};

struct NotRun {
  std::string isa, why;
};

struct Report {
  Options options;
  CpuReport cpu;
  std::vector<std::string> isas;  // levels that ran, weakest first
  std::vector<Row> rows;
  std::vector<DecoderResult> decoder;
  std::vector<ExhaustiveResult> exhaustive;
  double seconds = 0;

  bool holds() const;
  // Returns the levels that did not run, each with the reason.
  std::vector<NotRun> not_run() const;
  std::size_t left_out() const;  // number of levels in not_run() without a reason
};

// Throws std::system_error if writing to standard output has failed so far.
void flush_output();

void print_cpu(const CpuReport &cpu);
void print_head();
void print_row(const Row &row);
void print_failure(const Row &row);
void print_decoder(const DecoderResult &result);
void print_exhaustive(const ExhaustiveResult &result);
void print_verdict(const Report &report);

// Return false and set errno if the file cannot be written. A regular file is replaced only after the report
// is complete, so a run that ends earlier leaves it unchanged.
bool can_write_json(const std::string &path);
bool write_json(const Report &report, const std::string &path);

}  // namespace rapt::validate
