#include "validate/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "rapt/rapt.h"
#include "support/bits.hpp"
#include "support/case_text.hpp"

namespace rapt::validate {
namespace {

std::string joined(const std::vector<std::string> &words, const char *between = " ") {
  // Avoids fmt::join, because gcc 12 reports an overflow in the format parser of fmt 9.
  std::string text;
  for (const std::string &word : words) text += (text.empty() ? "" : between) + word;
  return text.empty() ? "none" : text;
}

// Returns a string such as "scalar, avx2; not run: avx512 (the CPU lacks avx512f)".
std::string levels_text(const Report &report) {
  std::string text = joined(report.isas, ", ");
  const char *between = "; not run: ";
  for (const NotRun &other : report.not_run()) {
    text += between + other.isa + " (" + (other.why.empty() ? "FOR NO REASON" : other.why) + ")";
    between = ", ";
  }
  return text;
}

std::string worst_text(const LevelResult &result) {
  const Accuracy &accuracy = *accuracy_of(result.kernel);
  if (!result.worst) return "not measured";
  return fmt::format("{:.3f} of {:.4g} {}", *result.worst, accuracy.bound, accuracy.unit);
}

const char *hash_verdict(const Row &row) {
  if (!row.published) return "not published";
  return *row.published == row.result.hash ? "equal" : "DIFFERENT";
}

}  // namespace

void flush_output() {
  errno = EIO;  // for earlier errors, because a stream does not keep their errno
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return;
  throw std::system_error(errno, std::generic_category());
}

bool Report::holds() const {
  return std::ranges::all_of(rows, [](const Row &row) { return row.holds(); }) &&
         std::ranges::all_of(decoder, [](const DecoderResult &result) { return result.holds(); }) &&
         std::ranges::all_of(exhaustive, [](const ExhaustiveResult &result) { return result.holds(); }) &&
         left_out() == 0;
}

std::vector<NotRun> Report::not_run() const {
  std::vector<NotRun> others;
  for (const LevelReport &level : cpu.levels) {
    if (std::ranges::find(isas, level.name) != isas.end()) continue;
    others.push_back({level.name, level.usable ? "not asked for" : why_not_usable(level)});
  }
  return others;
}

std::size_t Report::left_out() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(not_run(), [](const NotRun &other) { return other.why.empty(); }));
}

void print_cpu(const CpuReport &cpu) {
  fmt::print("rapt         {}\nsystem       {}\nCPU          {}{}\nfeatures     {}\nenabled      {}\n",
             rapt_version(), cpu.system, cpu.name, cpu.emulated ? ", emulated by QEMU" : "",
             joined(cpu.features),
             cpu.features == cpu.enabled ? "all of them, by the operating system" : joined(cpu.enabled));
  for (const LevelReport &level : cpu.levels) {
    const bool chosen = level.name == rapt_active_isa();  // no level is forced yet
    if (level.usable) {
      fmt::print("{:<12} {}\n", level.name, chosen ? "usable, chosen" : "usable");
    } else {
      fmt::print("{:<12} {}not usable: {}\n", level.name, chosen ? "chosen, but " : "",
                 why_not_usable(level));
    }
  }
  if (const std::string complaint = complaint_about_rapt_isa(); !complaint.empty()) {
    fmt::print("{}\n", complaint);
  }
}

void print_head() {
  fmt::print("\n{:<21} {:<12} {:>7} {:>10}  {:<38} {:<18} {}\n", "kernel", "level", "cases", "mismatches",
             "worst error of what rapt.h allows", "hash of results", "published");
}

void print_row(const Row &row) {
  const LevelResult &result = row.result;
  if (!result.inherits.empty()) {
    fmt::print("{:<21} {:<12} inherits {}\n", result.kernel, result.isa, result.inherits);
    return;
  }
  fmt::print("{:<21} {:<12} {:>7} {:>10}  {:<38} {:#018x} {}{}{}\n", result.kernel, result.isa, result.cases,
             result.mismatches, worst_text(result), result.hash, hash_verdict(row),
             result.inaccurate != 0 ? ", INACCURATE" : "", result.stopped ? ", STOPPED" : "");
  flush_output();
}

void print_failure(const Row &row) {
  const LevelResult &result = row.result;
  const auto print_again = [&](const std::string &text) {
    fmt::print("  again: rapt-validate --kernel {} --isa {} --case \"{}\"\n", result.kernel, result.isa,
               text);
  };
  if (!result.first_inaccurate.empty()) {
    fmt::print("\n{} on {} is less accurate than rapt.h promises, in {} problems; the first: {}\n",
               result.kernel, result.isa, result.inaccurate, result.inaccurate_error);
    print_again(result.first_inaccurate);
  }
  if (result.failure) {
    const auto &[kernel, isa, failing, difference, inputs, outputs] = *result.failure;
    fmt::print("\n{} on {}: {}\n  n {}, rows {}, byte offsets {} {} {}, seed {}\n", kernel, isa, difference,
               failing.problem.cols(), failing.problem.rows(), failing.layout.offset[0],
               failing.layout.offset[1], failing.layout.offset[2], failing.problem.seed);
    for (const std::string &bits : inputs) fmt::print("  input  {}\n", bits);
    for (const std::string &bits : outputs) fmt::print("  {}\n", bits);
    print_again(to_text(failing));
    for (const std::string &rule : result.broken_rules) fmt::print("  broken: {}\n", rule);
  } else if (result.isa == "scalar" && row.published && *row.published != result.hash) {
    fmt::print("\n{}: the results of the scalar reference itself are not the published ones\n",
               result.kernel);
  }
}

void print_decoder(const DecoderResult &result) {
  fmt::print("{:<21} {:<12} {:>7} {:>10}  {:<38} {:#018x} {}\n", decoder_name, result.isa, result.models,
             result.wrong.size(), "models of other weights and caches", result.hash,
             result.holds() ? "equal" : "DIFFERENT: " + joined(result.wrong, "; "));
  flush_output();
}

void print_exhaustive(const ExhaustiveResult &result) {
  fmt::print("{}, {:<7} all {} inputs, {} mismatches, worst error {:.5f} of {:.4g} {} at {:a}\n",
             result.function, result.isa, result.inputs, result.mismatches, result.worst_error, result.bound,
             result.unit, double{result.worst_input});
  if (result.mismatches == 0) return;
  fmt::print("  input {}: got {}, expected {}\n", test::hex(result.first_mismatch, 4),
             test::hex(result.got, 4), test::hex(result.expected, 4));
}

void print_verdict(const Report &report) {
  std::size_t cases = 0, wrong = 0;
  for (const Row &row : report.rows) {
    cases += row.result.cases;
    wrong += !row.holds();
  }
  for (const DecoderResult &result : report.decoder) {
    cases += result.models;
    wrong += !result.holds();
  }
  for (const ExhaustiveResult &result : report.exhaustive) wrong += !result.holds();
  fmt::print("\n{} cases in {:.1f} s", cases, report.seconds);
  if (report.holds()) {
    const bool published = std::ranges::all_of(
        report.rows, [](const Row &row) { return row.published || !row.result.inherits.empty(); });
    fmt::print(
        "; every result has {}\nPASS: {}\n",
        published ? "the published bits" : "the scalar reference's bits (no hash is published for this run)",
        levels_text(report));
  } else {
    if (report.left_out() != 0) fmt::print("; a level did not run although nothing hinders it");
    fmt::print("\nFAIL: {} of {} rows: {}\n", wrong,
               report.rows.size() + report.decoder.size() + report.exhaustive.size(), levels_text(report));
  }
}

}  // namespace rapt::validate
