#include "support/disturbance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rapt::bench {
namespace {

// Interpolated between two values.
double quantile(const std::vector<double> &sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - std::floor(place));
}

double rate_of(const Rates &rates, const std::string &isa, const std::string &what) {
  const auto of_isa = rates.find(isa);
  if (of_isa == rates.end()) return 0;
  const auto found = of_isa->second.find(what);
  return found == of_isa->second.end() ? 0 : found->second;
}

}  // namespace

std::vector<std::string> doubts(const Observation &seen) {
  std::vector<std::string> names;
  for (const Rule &rule : rules) {
    if (seen.*rule.value > rule.most) names.emplace_back(rule.name);
  }
  return names;
}

double quartile_spread(const std::vector<double> &values) {
  std::vector<double> sorted = values;
  std::sort(sorted.begin(), sorted.end());
  return (quantile(sorted, 0.75) - quantile(sorted, 0.25)) / quantile(sorted, 0.5);
}

std::vector<Inversion> inversions(const Rates &rates, const std::vector<std::string> &isas,
                                  const std::vector<std::string> &memory_levels) {
  std::vector<Inversion> found;
  const auto rate = [&rates](const std::string &isa, const std::string &what) {
    const double one = rate_of(rates, isa, what);
    return what.starts_with("copy:") ? std::max(one, rate_of(rates, isa, "copy_nt" + what.substr(4))) : one;
  };
  const auto compare = [&](const std::string &isa, const std::string &what, const std::string &weaker_isa,
                           const std::string &weaker_what) {
    const double own = rate(isa, what), weaker = rate(weaker_isa, weaker_what);
    if (own > 0 && weaker > inaccuracy_of_limits * own)
      found.push_back({isa + " " + what, weaker_isa + " " + weaker_what});
  };

  for (std::size_t isa = 0; isa < isas.size(); ++isa) {
    for (std::size_t weaker = 0; weaker < isa; ++weaker) {
      for (const char *fma : {"fma_f32", "fma_f64"}) compare(isas[isa], fma, isas[weaker], fma);
    }
    for (const std::string access : {"load:", "store:", "copy:", "update:"}) {
      for (std::size_t i = 0; i < memory_levels.size(); ++i) {
        const std::string what = access + memory_levels[i];
        for (std::size_t weaker = 0; weaker < isa; ++weaker) compare(isas[isa], what, isas[weaker], what);
        if (i + 1 < memory_levels.size()) compare(isas[isa], what, isas[isa], access + memory_levels[i + 1]);
      }
    }
  }
  return found;
}

}  // namespace rapt::bench
