// A problem and its layout as text that a command line takes: "rows=2 n=17 input=gaussian seed=5 …".
#pragma once

#include <string>

#include "support/problem.hpp"

namespace rapt::validate {

struct Case {
  test::Problem problem;
  test::Layout layout;
};

// What has its default value is left out, but for rows, n, input and seed.
std::string to_text(const Case &given);

// Empty if `text` was understood; else what was wrong with it.
std::string parse_case(const std::string &text, Case &parsed);

}  // namespace rapt::validate
