#include "support/topology.hpp"

#include <hwloc.h>

#include <memory>
#include <stdexcept>

namespace rapt::bench {
namespace {

struct Release {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
  void operator()(hwloc_bitmap_t bitmap) const { hwloc_bitmap_free(bitmap); }
};
using TopologyHandle = std::unique_ptr<hwloc_topology, Release>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, Release>;

TopologyHandle load_topology() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) throw std::runtime_error("hwloc does not start");
  TopologyHandle handle(topology);
  if (hwloc_topology_load(topology) != 0)
    throw std::runtime_error("hwloc cannot read this machine's topology");
  return handle;
}

// Returns the CPUs on which the caller (taskset, a container) lets the process run. If a chip mixes kinds of
// cores, only CPUs of the fastest kind are returned.
Bitmap candidate_cpus(hwloc_topology_t topology) {
  Bitmap allowed(hwloc_bitmap_alloc());
  if (hwloc_get_cpubind(topology, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0 ||
      hwloc_bitmap_iszero(allowed.get())) {
    hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  }
  const int kinds = hwloc_cpukinds_get_nr(topology, 0);
  for (int kind = kinds - 1; kind > 0; --kind) {
    Bitmap of_kind(hwloc_bitmap_alloc());
    int efficiency = -1;
    hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), of_kind.get(), &efficiency, nullptr,
                            nullptr, 0);
    hwloc_bitmap_and(of_kind.get(), of_kind.get(), allowed.get());
    if (efficiency >= 0 && !hwloc_bitmap_iszero(of_kind.get())) return of_kind;
  }
  return allowed;
}

std::size_t cache_size(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t cpu) {
  const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, type, cpu);
  return cache ? static_cast<std::size_t>(cache->attr->cache.size) : 0;
}

std::string cpu_name(hwloc_topology_t topology, hwloc_obj_t cpu) {
  const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, cpu);
  for (const hwloc_obj_t object : {package, hwloc_get_root_obj(topology)}) {
    const char *name = object ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
    if (name) return name;
  }
  const char *architecture = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "Architecture");
  return architecture ? std::string("unnamed ") + architecture : "unnamed CPU";
}

}  // namespace

Topology pin_to_one_cpu() {
  const TopologyHandle handle = load_topology();
  hwloc_topology_t topology = handle.get();
  const Bitmap candidates = candidate_cpus(topology);

  Topology result;
  // Pins to the last CPU, because interrupts and early processes gather on the first one.
  const int last = hwloc_bitmap_last(candidates.get());
  result.pinned_cpu = last < 0 ? 0U : static_cast<unsigned>(last);
  result.cpu_count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
  for (int cpu = last; cpu >= 0; --cpu) {
    if (hwloc_bitmap_isset(candidates.get(), static_cast<unsigned>(cpu))) {
      result.cpus.push_back(static_cast<unsigned>(cpu));
    }
  }
  hwloc_bitmap_only(candidates.get(), result.pinned_cpu);
  result.pinned = hwloc_set_cpubind(topology, candidates.get(), HWLOC_CPUBIND_PROCESS) == 0;

  const hwloc_obj_t cpu = hwloc_get_pu_obj_by_os_index(topology, result.pinned_cpu);
  if (!cpu) throw std::runtime_error("hwloc does not know the CPU that this process runs on");
  result.cpu_name = cpu_name(topology, cpu);
  result.l1d = cache_size(topology, HWLOC_OBJ_L1CACHE, cpu);
  result.l2 = cache_size(topology, HWLOC_OBJ_L2CACHE, cpu);
  result.l3 = cache_size(topology, HWLOC_OBJ_L3CACHE, cpu);
  return result;
}

void bind_thread(const std::vector<unsigned> &cpus) {
  const TopologyHandle handle = load_topology();
  const Bitmap set(hwloc_bitmap_alloc());
  for (const unsigned cpu : cpus) hwloc_bitmap_set(set.get(), cpu);
  hwloc_set_cpubind(handle.get(), set.get(), HWLOC_CPUBIND_THREAD);
}

}  // namespace rapt::bench
