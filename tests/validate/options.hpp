// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "validate/case_text.hpp"
#include "validate/cases.hpp"

namespace rapt::validate {

enum class Action { validate, one_case, list, print_hashes, help };

struct Options {
  Action action = Action::validate;
  std::vector<std::string> isas;     // empty: all usable ones
  std::vector<std::string> kernels;  // empty: all
  Effort effort = Effort::full;
  bool exhaustive = false;
  std::uint64_t seed = default_seed;
  std::string json;  // a file, or empty
  Case one_case;
};

// Null, with a message on standard error, if the command line is wrong.
std::optional<Options> parse_options(int argc, char **argv);

const char *help_text();

}  // namespace rapt::validate
