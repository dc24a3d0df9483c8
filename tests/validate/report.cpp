#include "validate/report.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "rapt/rapt.h"
#include "support/bits.hpp"

namespace rapt::validate {
namespace {

std::string joined(const std::vector<std::string> &words, const char *between = " ") {
  std::string text;
  for (const std::string &word : words) text += (text.empty() ? "" : between) + word;
  return text.empty() ? "none" : text;
}

// "scalar, avx2; not run: avx512 (the CPU lacks avx512f)".
std::string levels_text(const Report &report) {
  std::string text = joined(report.isas, ", ");
  const char *between = "; not run: ";
  for (const NotRun &other : report.not_run()) {
    text += between + other.isa + " (" + other.why + ")";
    between = ", ";
  }
  return text;
}

std::string worst_text(const LevelResult &result) {
  const Accuracy &accuracy = *accuracy_of(result.kernel);
  if (!result.worst) return "not measured";
  char text[96];
  std::snprintf(text, sizeof text, "%.3f of %.4g %s", *result.worst, accuracy.bound, accuracy.unit);
  return text;
}

const char *hash_verdict(const Row &row) {
  if (!row.published) return "not published";
  return *row.published == row.result.hash ? "equal" : "DIFFERENT";
}

}  // namespace

bool Report::holds() const {
  return std::ranges::all_of(rows, [](const Row &row) { return row.holds(); }) &&
         std::ranges::all_of(exhaustive, [](const ExhaustiveResult &result) { return result.holds(); });
}

std::vector<NotRun> Report::not_run() const {
  std::vector<NotRun> others;
  for (const LevelReport &level : cpu.levels) {
    if (std::ranges::find(isas, level.name) != isas.end()) continue;
    others.push_back({level.name, level.usable ? "not asked for" : why_not_usable(level)});
  }
  return others;
}

void print_cpu(const CpuReport &cpu) {
  std::printf(
      "rapt      %s\nsystem    %s\nCPU       %s%s\nfeatures  %s\nenabled   %s\n", rapt_version(),
      cpu.system.c_str(), cpu.name.c_str(), cpu.emulated ? ", emulated by QEMU" : "",
      joined(cpu.features).c_str(),
      cpu.features == cpu.enabled ? "all of them, by the operating system" : joined(cpu.enabled).c_str());
  for (const LevelReport &level : cpu.levels) {
    const bool chosen = level.name == rapt_active_isa();  // nothing is forced yet
    std::printf("%-9s %s\n", level.name.c_str(),
                chosen         ? "usable, chosen"
                : level.usable ? "usable"
                               : ("not usable: " + why_not_usable(level)).c_str());
  }
  if (const std::string complaint = complaint_about_rapt_isa(); !complaint.empty()) {
    std::printf("%s\n", complaint.c_str());
  }
}

void print_head() {
  std::printf("\n%-21s %-7s %7s %10s  %-38s %-18s %s\n", "kernel", "level", "cases", "mismatches",
              "worst error of what rapt.h allows", "hash of results", "published");
}

void print_row(const Row &row) {
  const LevelResult &result = row.result;
  std::printf("%-21s %-7s %7zu %10zu  %-38s 0x%016llx %s%s%s\n", result.kernel.c_str(), result.isa.c_str(),
              result.cases, result.mismatches, worst_text(result).c_str(),
              static_cast<unsigned long long>(result.hash), hash_verdict(row),
              result.inaccurate != 0 ? ", INACCURATE" : "", result.stopped ? ", STOPPED" : "");
  std::fflush(stdout);
}

void print_failure(const Row &row) {
  const LevelResult &result = row.result;
  if (!result.first_inaccurate.empty()) {
    std::printf("\n%s on %s is less accurate than rapt.h promises, in %zu problems; the first: %s\n",
                result.kernel.c_str(), result.isa.c_str(), result.inaccurate,
                result.inaccurate_error.c_str());
    std::printf("  again: rapt-validate --kernel %s --isa %s --case \"%s\"\n", result.kernel.c_str(),
                result.isa.c_str(), result.first_inaccurate.c_str());
  }
  if (result.failure) {
    const auto &[kernel, isa, failing, difference, inputs, outputs] = *result.failure;
    const auto &offset = failing.layout.offset;
    std::printf("\n%s on %s: %s\n  n %zu, rows %zu, byte offsets %zu %zu %zu, seed %llu\n", kernel.c_str(),
                isa.c_str(), difference.c_str(), failing.problem.cols, failing.problem.rows, offset[0],
                offset[1], offset[2], static_cast<unsigned long long>(failing.problem.seed));
    for (const std::string &bits : inputs) std::printf("  input  %s\n", bits.c_str());
    for (const std::string &bits : outputs) std::printf("  %s\n", bits.c_str());
    std::printf("  again: rapt-validate --kernel %s --isa %s --case \"%s\"\n", kernel.c_str(), isa.c_str(),
                to_text(failing).c_str());
    for (const std::string &rule : result.broken_rules) std::printf("  broken: %s\n", rule.c_str());
  } else if (result.isa == "scalar" && row.published && *row.published != result.hash) {
    std::printf("\n%s: the results of the scalar reference itself are not the published ones\n",
                result.kernel.c_str());
  }
}

void print_exhaustive(const ExhaustiveResult &result) {
  std::printf("%s, %-7s all %llu inputs, %llu mismatches, worst error %.5f of %.4g %s at %a\n",
              result.function.c_str(), result.isa.c_str(), static_cast<unsigned long long>(result.inputs),
              static_cast<unsigned long long>(result.mismatches), result.worst_error, result.bound,
              result.unit, double{result.worst_input});
  if (result.mismatches == 0) return;
  std::printf("  input %s: got %s, expected %s\n", test::hex(result.first_mismatch, 4).c_str(),
              test::hex(result.got, 4).c_str(), test::hex(result.expected, 4).c_str());
}

void print_verdict(const Report &report) {
  std::size_t cases = 0, wrong = 0;
  for (const Row &row : report.rows) {
    cases += row.result.cases;
    wrong += !row.holds();
  }
  for (const ExhaustiveResult &result : report.exhaustive) wrong += !result.holds();
  if (wrong == 0) {
    const bool published =
        std::ranges::all_of(report.rows, [](const Row &row) { return row.published.has_value(); });
    std::printf(
        "\n%zu cases in %.1f s; every result has %s\nPASS: %s\n", cases, report.seconds,
        published ? "the published bits" : "the scalar reference's bits (no hash is published for this run)",
        levels_text(report).c_str());
  } else {
    std::printf("\n%zu cases in %.1f s\nFAIL: %zu of %zu rows: %s\n", cases, report.seconds, wrong,
                report.rows.size() + report.exhaustive.size(), levels_text(report).c_str());
  }
}

Progress::Progress() : on_terminal_(isatty(STDERR_FILENO) != 0) {}

void Progress::show(const std::string &what, std::uint64_t done, std::uint64_t of) {
  if (!on_terminal_) return;
  const std::string text = what + " " + std::to_string(of == 0 ? 0 : 100 * done / of) + " %";
  if (text == shown_) return;
  shown_ = text;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
}

void Progress::clear() {
  if (!shown_.empty()) std::fprintf(stderr, "\r\033[K");
  shown_.clear();
}

}  // namespace rapt::validate
