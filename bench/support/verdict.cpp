#include "support/verdict.hpp"

#include <algorithm>

#include "support/text.hpp"

namespace rapt::bench {

Verdict verdict_of(const Suite &suite, const std::vector<Case *> &cases) {
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
  return verdict;
}

void print_verdict(const Verdict &verdict, const std::vector<Inversion> &inverted_limits) {
  if (verdict.reasons.empty()) {
    print_line("\nQuiet: none of {} rows is marked.", verdict.rows);
    return;
  }
  print_line("\nDisturbed: of {} rows {} are marked with an exclamation mark.", verdict.rows, verdict.marked);
  for (const Reason &reason : verdict.reasons) {
    print_line("  {:<9}{:>5}  {}", reason.name, reason.count, reason.meaning);
  }
  for (const Inversion &one : inverted_limits) print_line("  {} was measured below {}", one.limit, one.below);
}

}  // namespace rapt::bench
