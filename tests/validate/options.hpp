// Parses the command line.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "validate/cases.hpp"

namespace rapt::validate {

enum class Action { validate, one_case, list, print_hashes };

struct Options {
  Action action = Action::validate;
  std::vector<std::string> isas;     // empty: all usable levels
  std::vector<std::string> kernels;  // empty: all kernels
  Effort effort = Effort::full;
  bool exhaustive = false;
  std::uint64_t seed = default_seed;
  std::string json;  // file name, or empty
  test::Case one_case;
};

// Returns the options, or an exit status if the program has printed its help or an error and must end.
std::variant<Options, int> parse_options(int argc, char **argv);

}  // namespace rapt::validate
