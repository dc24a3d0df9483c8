#include "support/working_sets.hpp"

#include <algorithm>

namespace rapt::bench {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

}  // namespace

std::vector<WorkingSet> working_sets(const Topology &topology, bool quick) {
  // A working set is half of a cache. The other half is for other data and imperfect replacement.
  const std::size_t l1 = (topology.l1d ? topology.l1d : 32 * kib) / 2;
  const std::size_t l2 = std::max((topology.l2 ? topology.l2 : 512 * kib) / 2, 2 * l1);
  std::vector<WorkingSet> sets = {{"L1", l1}, {"L2", l2}};

  // A virtual machine reports the L3 of the whole server, but its few cores get only a share of that cache.
  const std::size_t l3 = std::min(topology.l3 / 2, 32 * mib);
  if (l3 > 2 * l2) sets.push_back({"L3", l3});

  sets.push_back({"mem", std::max((quick ? 128 : 256) * mib, 4 * std::max(l2, l3))});
  return sets;
}

}  // namespace rapt::bench
