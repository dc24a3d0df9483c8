#include "validate/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "rapt/rapt.h"
#include "support/case_text.hpp"
#include "support/isa.hpp"
#include "support/kernel_case.hpp"
#include "validate/decoder.hpp"

namespace rapt::validate {
namespace {

// CLI11 prints the returned string as an error. An empty string means that the value is valid.
std::string complaint_about_isa(const std::string &name) {
  const auto known = test::compiled_isas();
  if (std::ranges::find(known, name) == known.end()) return "no level is called " + name + "; see --list";
  const auto usable = test::usable_isas();
  return std::ranges::find(usable, name) != usable.end() ? "" : "this machine cannot run " + name;
}

// Returns null if there is no such kernel.
const test::KernelCase *kernel_called(const std::string &name) {
  for (const test::KernelCase &kernel : test::kernel_cases()) {
    if (name == kernel.name) return &kernel;
  }
  return nullptr;
}

std::string complaint_about_kernel(const std::string &name) {
  return kernel_called(name) || name == decoder_name ? "" : "no kernel is called " + name + "; see --list";
}

// Rejects "-1" and numbers of more than 64 bits, which CLI11 itself would accept.
std::string complaint_about_seed(const std::string &text) {
  std::uint64_t seed;
  return test::parse_number(text, seed) ? "" : text + " is no seed";
}

// The flag takes one name, and can be repeated.
void add_names(CLI::App &app, const char *flag, std::vector<std::string> &names, const char *help,
               std::string (*complaint)(const std::string &)) {
  app.add_option(flag, names, help)
      ->type_name("NAME")
      ->allow_extra_args(false)
      ->take_all()
      ->check(CLI::Validator([complaint](std::string &name) { return complaint(name); }, ""));
}

}  // namespace

std::variant<Options, int> parse_options(int argc, char **argv) {
  Options options;
  bool quick = false, full = false, list = false, print_hashes = false;
  std::string one_case;
  CLI::App app(
      "Runs every kernel on every instruction-set level that this CPU has, compares each result with the\n"
      "scalar reference bit for bit, its accuracy with what rapt.h promises, and a hash of all results\n"
      "with the published one.",
      "rapt-validate");
  app.footer(
      "The exit status is 0 if everything holds, 1 if anything does not or cannot be written, and 2 if the command line is "
      "wrong.");
  CLI::Option *const is_quick = app.add_flag("--quick", quick, "two seconds");
  app.add_flag("--full", full, "about two minutes (the default)")->excludes(is_quick);
  app.add_flag("--exhaustive", options.exhaustive,
               "some five minutes of CPU time: --full, and exp and the tanh of softcaps over all floats")
      ->excludes(is_quick);
  add_names(app, "--isa", options.isas, "only this level, and the scalar reference (may be repeated)",
            complaint_about_isa);
  add_names(app, "--kernel", options.kernels, "only this kernel (may be repeated)", complaint_about_kernel);
  app.add_option("--seed", options.seed,
                 "other inputs; their hash is not published, so it is compared between levels only")
      ->type_name("N")
      ->check(CLI::Validator([](std::string &text) { return complaint_about_seed(text); }, ""));
  app.add_option("--json", options.json, "all that is printed, as JSON")->type_name("FILE");
  app.add_flag("--list", list, "the levels and kernels by name");
  CLI::Option *const has_case =
      app.add_option("--case", one_case, "with --kernel: only this case, as a failure prints it")
          ->type_name("TEXT");
  app.add_flag("--print-hashes", print_hashes, "the text of hashes.def, by the best level or --isa");
  try {
    app.parse(argc, argv);
    if (*has_case) {
      if (options.kernels.size() != 1 || !kernel_called(options.kernels[0]))
        throw CLI::ValidationError("--case", "needs one --kernel");
      const std::string wrong =
          test::parse_case(kernel_called(options.kernels[0])->traits.family, one_case, options.one_case);
      if (!wrong.empty()) throw CLI::ValidationError("--case", wrong);
    }
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::fprintf(stderr, "rapt-validate: %s\nTry: rapt-validate --help\n", error.what());
    return 2;
  }
  options.effort = quick ? Effort::quick : Effort::full;
  options.action = list           ? Action::list
                   : print_hashes ? Action::print_hashes
                   : *has_case    ? Action::one_case
                                  : Action::validate;
  return options;
}

}  // namespace rapt::validate
