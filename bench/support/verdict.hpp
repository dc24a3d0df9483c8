// The verdict on the whole run: quiet, or disturbed, with the reasons and how often each occurred.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "support/suite.hpp"

namespace rapt::bench {

struct Reason {
  std::string name;
  std::size_t count;
  std::string meaning;
};

struct Verdict {
  std::size_t rows = 0;
  std::size_t marked = 0;
  std::vector<Reason> reasons;  // only those that occurred

  const char *word() const { return reasons.empty() ? "quiet" : "disturbed"; }
};

// Call it after the suite has concluded.
Verdict verdict_of(const Suite &suite, const std::vector<Case *> &cases);

void print_verdict(const Verdict &verdict, const std::vector<Inversion> &inverted_limits);

}  // namespace rapt::bench
