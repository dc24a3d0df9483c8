#include "support/verdict.hpp"

#include <algorithm>
#include <cstdio>

#include "support/text.hpp"

namespace rapt::bench {

Verdict verdict_of(const Suite &suite, const std::vector<Case *> &cases, const Scaling &scaling) {
  Verdict verdict;
  for (const Case *one : cases) {
    if (one->kernel == limit_kernel || !one->measured()) continue;
    ++verdict.rows;
    verdict.marked += !one->doubts.empty();
  }
  const auto add = [&verdict](const char *name, std::size_t count, const char *meaning) {
    if (count > 0) verdict.reasons.push_back({name, count, meaning});
  };
  for (const Rule &rule : rules) {
    const auto breaks = [&rule](const Case *one) {
      return std::find(one->doubts.begin(), one->doubts.end(), rule.name) != one->doubts.end();
    };
    add(rule.name, static_cast<std::size_t>(std::count_if(cases.begin(), cases.end(), breaks)), rule.meaning);
  }
  add("limits", suite.inverted_limits().size(), "limits below those of a weaker level");
  add("threads", doubts({.load = scaling.load}).size(), "others were busy beside the tasks on threads");
  return verdict;
}

void print_verdict(const Verdict &verdict, const std::vector<Inversion> &inverted_limits) {
  std::puts("");
  if (verdict.reasons.empty()) {
    std::printf("Quiet: none of %zu rows is marked.\n", verdict.rows);
    return;
  }
  std::printf("Disturbed: of %zu rows %zu are marked with an exclamation mark.\n", verdict.rows,
              verdict.marked);
  for (const Reason &reason : verdict.reasons) {
    print_line("  " + left(reason.name, 9) + right(std::to_string(reason.count), 5) + "  " + reason.meaning);
  }
  for (const Inversion &one : inverted_limits) {
    print_line("  " + one.limit + " was measured below " + one.below);
  }
}

}  // namespace rapt::bench
