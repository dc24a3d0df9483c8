#include "validate/options.hpp"

#include <getopt.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "rapt/rapt.h"
#include "support/isa.hpp"
#include "support/kernel_case.hpp"

namespace rapt::validate {
namespace {

enum Flag : int { isa = 256, kernel, quick, full, exhaustive, seed, json, list, print_hashes, one_case };

constexpr option flags[] = {
    {"isa", required_argument, nullptr, Flag::isa},
    {"kernel", required_argument, nullptr, Flag::kernel},
    {"quick", no_argument, nullptr, Flag::quick},
    {"full", no_argument, nullptr, Flag::full},
    {"exhaustive", no_argument, nullptr, Flag::exhaustive},
    {"seed", required_argument, nullptr, Flag::seed},
    {"json", required_argument, nullptr, Flag::json},
    {"list", no_argument, nullptr, Flag::list},
    {"print-hashes", no_argument, nullptr, Flag::print_hashes},
    {"case", required_argument, nullptr, Flag::one_case},
    {"help", no_argument, nullptr, 'h'},
    {nullptr, 0, nullptr, 0},
};

std::nullopt_t complain(const std::string &what) {
  std::fprintf(stderr, "rapt-validate: %s\nTry: rapt-validate --help\n", what.c_str());
  return std::nullopt;
}

bool is_kernel(const std::string &name) {
  return std::ranges::any_of(test::kernel_cases(), [&](const auto &known) { return name == known.name; });
}

}  // namespace

const char *help_text() {
  return R"(usage: rapt-validate [--quick | --full | --exhaustive] [options]

Runs every kernel on every instruction-set level that this CPU has, compares each result with the scalar
reference bit for bit, its accuracy with what rapt.h promises, and a hash of all results with the published one.

  --quick         a second
  --full          about a minute (the default)
  --exhaustive    some five minutes of CPU time: --full, and exp and the tanh of softcaps over all floats
  --isa NAME      only this level, and the scalar reference (may be repeated)
  --kernel NAME   only this kernel (may be repeated)
  --seed N        other inputs; their hash is not published, so it is compared between levels only
  --json FILE     all that is printed, as JSON
  --list          the levels and kernels by name
  --case TEXT     with --kernel: only this case, as a failure prints it
  --print-hashes  the text of hashes.def, by the scalar level
  --help          this text

The exit status is 0 if everything holds, 1 if anything does not, and 2 if the command line is wrong.
)";
}

std::optional<Options> parse_options(int argc, char **argv) {
  Options options;
  for (int flag; (flag = getopt_long(argc, argv, "h", flags, nullptr)) != -1;) {
    switch (flag) {
      case Flag::isa: {
        const auto known = test::compiled_isas();
        if (std::ranges::find(known, optarg) == known.end()) {
          return complain(std::string("no level is called ") + optarg + "; see --list");
        }
        if (!rapt_isa_usable(optarg)) return complain(std::string("this machine cannot run ") + optarg);
        options.isas.emplace_back(optarg);
        break;
      }
      case Flag::kernel:
        if (!is_kernel(optarg))
          return complain(std::string("no kernel is called ") + optarg + "; see --list");
        options.kernels.emplace_back(optarg);
        break;
      case Flag::quick:
        options.effort = Effort::quick;
        break;
      case Flag::full:
        options.effort = Effort::full;
        break;
      case Flag::exhaustive:
        options.effort = Effort::full;
        options.exhaustive = true;
        break;
      case Flag::seed: {
        char *end;
        errno = 0;
        options.seed = std::strtoull(optarg, &end, 0);
        if (*optarg == '\0' || *optarg == '-' || *end != '\0' || errno != 0) {
          return complain(std::string(optarg) + " is no seed");
        }
        break;
      }
      case Flag::json:
        options.json = optarg;
        break;
      case Flag::list:
        options.action = Action::list;
        break;
      case Flag::print_hashes:
        options.action = Action::print_hashes;
        break;
      case Flag::one_case: {
        options.action = Action::one_case;
        const std::string wrong = parse_case(optarg, options.one_case);
        if (!wrong.empty()) return complain("--case: " + wrong);
        break;
      }
      case 'h':
        options.action = Action::help;
        return options;
      default:
        return complain("the command line is wrong");
    }
  }
  if (optind < argc) return complain(std::string(argv[optind]) + " is not understood");
  if (options.action == Action::one_case && options.kernels.size() != 1) {
    return complain("--case needs one --kernel");
  }
  return options;
}

}  // namespace rapt::validate
