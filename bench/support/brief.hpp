// The run on one screen: a line per operation over all its sizes, at the strongest level.
#pragma once

#include <string>
#include <vector>

#include "support/case.hpp"

namespace rapt::bench {

// With the verdict it has at most 40 lines.
void print_brief(const std::string &cpu_name, const Plan &plan, const std::vector<Case *> &cases);

}  // namespace rapt::bench
