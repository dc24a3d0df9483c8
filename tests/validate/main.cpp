// Implements rapt-validate, which checks whether the library keeps its promises on this machine.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <optional>
#include <system_error>

#include "rapt/rapt.h"
#include "support/effort.hpp"
#include "support/isa.hpp"
#include "support/progress.hpp"
#include "validate/check.hpp"
#include "validate/cpu_report.hpp"
#include "validate/crash.hpp"
#include "validate/decoder.hpp"
#include "validate/exhaustive.hpp"
#include "validate/hashes.hpp"
#include "validate/options.hpp"
#include "validate/report.hpp"

namespace {

using namespace rapt;
using namespace rapt::validate;

bool is_wanted(const std::vector<std::string> &names, const std::string &name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

std::vector<test::KernelCase> wanted_kernels(const Options &options) {
  std::vector<test::KernelCase> kernels;
  for (const test::KernelCase &kernel : test::kernel_cases()) {
    if (is_wanted(options.kernels, kernel.name)) kernels.push_back(kernel);
  }
  return kernels;
}

void complain_about_json(const std::string &path) {
  fmt::print(stderr, "rapt-validate: {} cannot be written: {}\n", path, std::strerror(errno));
}

void list() {
  fmt::print("levels:");
  for (const test::LevelReport &level : test::level_reports()) {
    if (level.compiled) fmt::print(" {}{}", level.name, level.usable ? "" : " (not usable here)");
  }
  fmt::print("\nkernels:\n");
  for (const test::KernelCase &kernel : test::kernel_cases()) fmt::print("  {}\n", kernel.name);
  fmt::print("  {} (all of a language model)\n", decoder_name);
}

int print_hashes(const Options &options) {
  const std::string isa = options.isas.empty() ? test::usable_isas().back() : options.isas.back();
  Progress progress;
  std::string text = hashes_head();
  for (const test::KernelCase &kernel : wanted_kernels(options)) {
    for (const Effort effort : {Effort::quick, Effort::full}) {
      const auto show = [&](std::size_t done, std::size_t of) { progress.show(kernel.name, done, of); };
      const std::optional<std::uint64_t> hash = hash_kernel(kernel, isa, effort, show);
      if (!hash) {
        fmt::print(stderr, "{}: the level {} fails\n", kernel.name, isa);
        return 1;
      }
      text += hash_line(kernel.name, effort, *hash);
    }
  }
  progress.clear();
  std::fputs(text.c_str(), stdout);
  return 0;
}

Row make_row(const Options &options, const LevelResult &result) {
  Row row{result, std::nullopt};
  if (options.action == Action::validate && options.seed == default_seed) {
    row.published = published_hash(result.kernel, options.effort);
  }
  return row;
}

void run(Report &report, Progress &progress) {
  const Options &options = report.options;
  for (const test::KernelCase &kernel : wanted_kernels(options)) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show(kernel.name, done, of); };
    const auto results = options.action == Action::one_case
                             ? check_case(kernel, report.isas, options.one_case)
                             : check_kernel(kernel, report.isas, options.effort, options.seed, show);
    progress.clear();
    for (const LevelResult &result : results) {
      report.rows.push_back(make_row(options, result));
      print_row(report.rows.back());
    }
  }
  if (options.action == Action::validate && is_wanted(options.kernels, decoder_name)) {
    report.decoder = check_decoder(
        report.isas, [&](std::size_t done, std::size_t of) { progress.show(decoder_name, done, of); });
    progress.clear();
    for (const DecoderResult &result : report.decoder) print_decoder(result);
  }
  if (!options.exhaustive) return;
  fmt::print("\n");
  for (const auto &[name, check] : {std::pair("exp_f32 over all inputs", &check_exp_exhaustively),
                                    std::pair("tanh over all inputs", &check_tanh_exhaustively)}) {
    const auto results = check(report.isas, 1, [&, name = name](std::uint64_t done, std::uint64_t of) {
      progress.show(name, done, of);
    });
    report.exhaustive.insert(report.exhaustive.end(), results.begin(), results.end());
  }
  progress.clear();
  for (const ExhaustiveResult &result : report.exhaustive) print_exhaustive(result);
}

int validate_machine(const Options &options, const CpuReport &cpu) {
  Report report;
  report.options = options;
  report.cpu = cpu;
  for (const std::string &isa : test::usable_isas()) {
    if (isa == "scalar" || is_wanted(options.isas, isa)) report.isas.push_back(isa);
  }
  print_cpu(cpu);
  if (options.seed != default_seed) {
    fmt::print("seed      {}: hashes are published for seed {} only\n", options.seed, default_seed);
  }
  print_head();
  Progress progress;
  const auto begin = std::chrono::steady_clock::now();
  run(report, progress);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const Row &row : report.rows) print_failure(row);
  print_verdict(report);
  flush_output();
  if (!options.json.empty() && !write_json(report, options.json)) {
    complain_about_json(options.json);
    return 1;
  }
  return report.holds() ? 0 : 1;
}

int run_program(int argc, char **argv) {
  const auto parsed = parse_options(argc, argv);
  if (const int *status = std::get_if<int>(&parsed)) return *status;
  const Options &options = std::get<Options>(parsed);
  const CpuReport cpu = report_cpu();
  // QEMU's masked loads read whole vectors, so under QEMU the tests keep data away from guard pages.
  if (cpu.emulated) test::assume_emulator();
  catch_crashes();
  switch (options.action) {
    case Action::list:
      list();
      return 0;
    case Action::print_hashes:
      return print_hashes(options);
    case Action::validate:
    case Action::one_case:
      break;
  }
  if (!options.json.empty() && !can_write_json(options.json)) {
    complain_about_json(options.json);
    return 2;
  }
  return validate_machine(options, cpu);
}

}  // namespace

// Fails if the report could not be written, because nobody has seen it then.
int main(int argc, char **argv) {
  try {
    const int status = run_program(argc, argv);
    flush_output();
    return status;
  } catch (const std::system_error &error) {
    std::fprintf(stderr, "rapt-validate: standard output cannot be written: %s\n",
                 error.code().message().c_str());
    return 1;
  }
}
