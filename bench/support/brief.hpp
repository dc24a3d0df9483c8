// Prints a summary of the run that fits on one screen. Each operation has one line, which averages all its
// sizes at the strongest level.
#pragma once

#include <string>
#include <vector>

#include "support/case.hpp"

namespace rapt::bench {

// Prints at most 50 lines, counting the lines of the verdict that follows.
void print_brief(const std::string &cpu_name, const Plan &plan, const std::vector<Case *> &cases);

}  // namespace rapt::bench
