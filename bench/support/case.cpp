#include "support/case.hpp"

#include <algorithm>

namespace rapt::bench {
namespace {

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double Case::best() const { return *std::min_element(seconds.begin(), seconds.end()); }
double Case::median() const { return median_of(seconds); }

Observation observation_of(const Case &one, double limit) {
  // The µops are counted for rapt's code. A peer may need fewer, so a bound by arithmetic does not limit a
  // peer.
  const bool is_limit = !one.is_peer || one.bound.resource != arithmetic;
  return {.share = is_limit ? one.share() : 0,
          .spread = one.spread(),
          .slowdown = one.beside.seconds / limit,
          .load = one.wall_over_cpu - 1};
}

}  // namespace rapt::bench
