// Reads rapt_bench's command line and runs the benchmarks.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "peers/peer.hpp"
#include "rapt/rapt.h"
#include "support/conditions.hpp"
#include "support/reporter.hpp"
#include "support/results_file.hpp"
#include "support/scaling.hpp"
#include "support/suite.hpp"
#include "support/topology.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {
namespace {

constexpr int usage_error = 2;

struct Options {
  bool quick = false;
  bool list = false;
  bool where = false;
  bool peers = false;
  std::vector<std::string> isas;
  std::string filter;
  std::string json;

  std::string results() const {
    return json.empty() ? RAPT_BENCH_FOLDER "/" + results_file(quick, partial()) : json;
  }
  bool partial() const { return !filter.empty() || !isas.empty(); }
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < rapt_isa_count(); ++i) {
    if (rapt_isa_usable(rapt_isa_name(i))) names.emplace_back(rapt_isa_name(i));
  }
  return names;
}

bool contains(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns the instruction sets to measure, weakest first.
std::vector<std::string> choose_isas(const std::vector<std::string> &asked) {
  std::vector<std::string> isas = usable_isas();
  for (const std::string &name : asked) {
    if (contains(isas, name)) continue;
    throw UsageError(fmt::format("--isa {}: not usable here; usable: {}", name, fmt::join(isas, " ")));
  }
  if (!asked.empty()) {
    std::erase_if(isas, [&asked](const std::string &name) { return !contains(asked, name); });
  }
  return isas;
}

std::vector<std::string> skipped_isas(const std::vector<std::string> &measured) {
  std::vector<std::string> skipped;
  for (std::size_t i = 0; i < rapt_isa_count(); ++i) {
    const std::string name = rapt_isa_name(i);
    if (contains(measured, name)) continue;
    skipped.push_back(name + (rapt_isa_usable(name.c_str())
                                  ? " (not among those that --isa names)"
                                  : " (compiled in, but this CPU or its operating system cannot run it)"));
  }
  return skipped;
}

std::regex compile_filter(const std::string &filter) {
  try {
    return std::regex(filter);
  } catch (const std::regex_error &error) {
    throw UsageError("--filter " + filter + ": " + error.what());
  }
}

// Sets global flags of Google Benchmark, because a setting of one benchmark becomes part of its name. Random
// interleaving stays off, because hardware limits must be measured first. It would also refill the buffers
// for each repetition. The implementations of a size run one after another anyway.
void configure_google_benchmark(const std::string &json, const Conditions &conditions) {
  static char name[] =
      "rapt_bench";  // Google Benchmark keeps the pointer and writes the name into the results
  std::vector<std::string> flags = {"--benchmark_min_time=" + std::to_string(conditions.min_time),
                                    "--benchmark_repetitions=" + std::to_string(conditions.repetitions),
                                    "--benchmark_out=" + json, "--benchmark_out_format=json"};
  std::vector<char *> arguments = {name};
  for (std::string &flag : flags) arguments.push_back(flag.data());
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
}

// Throws if the file cannot be written, before minutes are spent on measuring.
void require_writable(const std::string &path) {
  if (!std::ofstream(path, std::ios::app)) throw UsageError(path + ": cannot be written");
}

// Returns the file to write during the run. A temporary file replaces earlier results only when the new ones
// are complete. A device or pipe is written directly.
std::string written_meanwhile(const std::string &json) {
  const bool replaces = !std::filesystem::exists(json) || std::filesystem::is_regular_file(json);
  return replaces ? json + ".part" : json;
}

void run(const Options &options) {
  Conditions conditions;
  if (std::getenv("RAPT_ISA")) {
    fmt::print(stderr, "rapt_bench: RAPT_ISA is set, but here --isa chooses the instruction sets\n");
  }
  Plan plan;
  plan.isas = choose_isas(options.isas);
  plan.quick = options.quick;
  plan.peers = options.peers;
  conditions.skipped = skipped_isas(plan.isas);
  getloadavg(&conditions.load, 1);
  conditions.topology = pin_to_one_cpu();
  // With fewer than four repetitions, the Mann-Whitney test of bench/compare_runs finds no difference significant.
  conditions.repetitions = options.quick ? 4 : 5;
  conditions.min_time = 0.015;
  conditions.partial = options.partial();

  plan.working_sets = working_sets(conditions.topology, options.quick);
  if (plan.peers && peers().empty()) {
    throw UsageError("--peers: this build has none; bench/run --peers makes one that has");
  }
  if (!options.filter.empty()) plan.filter = compile_filter(options.filter);

  Suite suite(std::move(plan));
  register_all(suite);
  const std::vector<Case *> cases = suite.schedule();
  if (cases.empty()) {
    throw UsageError("--filter " + options.filter + ": matches no benchmark; --list shows them");
  }
  if (options.list) {
    for (const Case *one : cases) fmt::print("{}\n", one->name);
    return;
  }

  const std::string json_file = options.results(), meanwhile = written_meanwhile(json_file);
  require_writable(meanwhile);
  configure_google_benchmark(meanwhile, conditions);
  record_conditions(conditions, suite.plan());
  // Google Benchmark takes about the time of two repetitions to find the number of calls.
  const double expected_seconds =
      static_cast<double>(cases.size()) * (conditions.repetitions + 2) * conditions.min_time;
  Reporter reporter(suite, cases, expected_seconds);
  JsonReporter json(cases, [&] {
    suite.conclude();
    return state_afterwards(conditions, suite, cases, measure_scaling(suite.plan(), conditions.topology));
  });
  benchmark::RunSpecifiedBenchmarks(&reporter, &json);
  if (meanwhile != json_file) std::filesystem::rename(meanwhile, json_file);
}

}  // namespace
}  // namespace rapt::bench

int main(int argc, char **argv) {
  using namespace rapt::bench;
  Options options;
  CLI::App app(
      "Times every rapt kernel on every instruction set that this CPU runs, from each level of the\n"
      "memory hierarchy and at the shapes of real models. Names are kernel/isa/size.\n\n"
      "Before, between and after them it measures the limits of the machine (limit/...). The limit of\n"
      "a kernel is the larger of bytes / measured bandwidth of the cache level and of (vectors of\n"
      "elements x instructions per vector) / measured rate of fused multiply-adds, or of these with\n"
      "additions. Its share is that limit / its time. Doubtful rows are marked, and the run is called disturbed.\n\n"
      "All of it is written as JSON. bench/report/text.py makes tables of it, and page.py pictures.",
      "rapt_bench");
  app.add_flag("--quick", options.quick, "fewer sizes and repetitions: a minute or two instead of ten");
  app.add_flag("--peers", options.peers, "measure other libraries too, where the build has them");
  app.add_option("--isa", options.isas, "measure this instruction set only (may be given several times)")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  app.add_option("--filter", options.filter, "measure the benchmarks whose name matches")->type_name("REGEX");
  app.add_flag("--list", options.list, "print the names of the benchmarks and stop");
  app.add_option("--json", options.json,
                 "where to write every repetition; else " RAPT_BENCH_FOLDER
                 "/results.json, of a quick run results-quick.json, of a filtered one results-filtered.json")
      ->type_name("FILE");
  app.add_flag("--where", options.where, "print the name of that file and stop");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : usage_error;
  }
  if (options.where) {
    fmt::print("{}\n", options.results());
    return 0;
  }
  try {
    run(options);
  } catch (const UsageError &error) {
    fmt::print(stderr, "rapt_bench: {}\n", error.what());
    return usage_error;
  } catch (const std::exception &error) {
    fmt::print(stderr, "rapt_bench: {}\n", error.what());
    return 1;
  }
}
