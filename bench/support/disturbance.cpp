#include "support/disturbance.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace rapt::bench {

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
  const auto quantile = [&sorted](double fraction) {
    const double place = fraction * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], place - std::floor(place));
  };
  return (quantile(0.75) - quantile(0.25)) / quantile(0.5);
}

double rate_of(const Rates &rates, const std::string &isa, const std::string &what) {
  const bool is_measured = rates.contains(isa) && rates.at(isa).contains(what);
  return is_measured ? rates.at(isa).at(what) : 0;
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

  std::vector<std::vector<std::string>> chains = {
      {"fma_f32"}, {"fma_f64"}, {"fma_add_f32"}, {"fma_add_f64"}};  // fastest first
  for (const std::string access : {"load:", "store:", "copy:", "update:"}) {
    chains.emplace_back();
    for (const std::string &level : memory_levels) chains.back().push_back(access + level);
  }
  for (std::size_t isa = 0; isa < isas.size(); ++isa) {
    for (const std::vector<std::string> &chain : chains) {
      for (std::size_t i = 0; i < chain.size(); ++i) {
        for (std::size_t weaker = 0; weaker < isa; ++weaker)
          compare(isas[isa], chain[i], isas[weaker], chain[i]);
        if (i + 1 < chain.size()) compare(isas[isa], chain[i], isas[isa], chain[i + 1]);
      }
    }
  }
  return found;
}

}  // namespace rapt::bench
