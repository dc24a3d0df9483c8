#include "support/limits.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "limits/loops.hpp"

namespace rapt::bench {
namespace {

const char *fma_of(const Work &work) { return work.element_bytes == sizeof(double) ? "fma_f64" : "fma_f32"; }
const char *fma_add_of(const Work &work) {
  return work.element_bytes == sizeof(double) ? "fma_add_f64" : "fma_add_f32";
}
// A working set is half as large as its cache.
std::size_t cache_bytes(const WorkingSet &set) { return 2 * set.bytes; }
bool has_additions(Uops uops) { return uops.all > uops.fma; }

// Returns the number of elements in a register. The scalar level computes one at a time.
double lanes_of(const std::string &isa, std::size_t element_bytes) {
  const LimitLoops *loops = limit_loops(isa);
  if (!loops || isa == "scalar") return 1;
  return static_cast<double>(loops->register_bytes / element_bytes);
}

}  // namespace

double operations_of_fma(const std::string &isa, std::size_t element_bytes) {
  return 2 * lanes_of(isa, element_bytes);
}

double operations_of_fma_add(const std::string &isa, std::size_t element_bytes) {
  return 1.5 * lanes_of(isa, element_bytes);
}

void Limits::record(const std::string &isa, const std::string &what, double rate) {
  double &best = rates_[isa][what];
  best = std::max(best, rate);
}

void Limits::raise_to_weaker(const std::vector<std::string> &isas) {
  for (std::size_t i = 1; i < isas.size(); ++i) {
    for (auto &[what, rate] : rates_[isas[i]]) {
      if (what != "clock") rate = std::max(rate, this->rate(isas[i - 1], what));
    }
  }
}

double Limits::rate(const std::string &isa, const std::string &what) const {
  return rate_of(rates_, isa, what);
}

double Limits::overflow(std::size_t level, std::size_t footprint) const {
  if (level + 1 >= sets_.size()) return 0;
  const auto size = static_cast<double>(cache_bytes(sets_[level]));
  return std::clamp((static_cast<double>(footprint) - size) / size, 0.0, 1.0);
}

std::size_t Limits::memory_level(std::size_t footprint) const {
  std::size_t level = 0;
  while (overflow(level, footprint) == 1) ++level;
  return level;
}

std::vector<Limits::Part> Limits::parts(const Work &work, std::size_t level) const {
  const std::string &label = sets_[level].label;
  const std::size_t both = std::min(work.read, work.written);
  const bool reads_again = level > 0 && work.row_bytes > cache_bytes(sets_[level - 1]);
  const std::size_t only_read = work.read - both + (reads_again ? work.read : 0);

  std::vector<Part> parts;
  const auto add = [&parts](std::size_t bytes, std::vector<std::string> ways) {
    if (bytes > 0) parts.push_back({static_cast<double>(bytes), std::move(ways)});
  };
  if (work.in_place) {
    add(2 * both, {"update:" + label});
  } else {
    add(2 * both, {"copy:" + label, "copy_nt:" + label});
  }
  add(only_read, {"load:" + label});
  add(work.written - both, {"store:" + label});
  return parts;
}

std::vector<std::string> Limits::needed_for(const Work &work) const {
  std::vector<std::string> names = {fma_of(work)};
  if (has_additions(work.uops_per_vector)) names.emplace_back(fma_add_of(work));
  if (work.byte_uops_per_vector.all > 0) names.emplace_back("products_i8");
  if (has_additions(work.byte_uops_per_vector)) names.emplace_back("fma_add_f32");
  if (work.multiply_adds_of_tile > 0) names.emplace_back("products_bf16");
  const std::size_t first = memory_level(work.footprint());
  const std::size_t last = overflow(first, work.footprint()) > 0 ? first + 1 : first;
  for (std::size_t level = first; level <= last; ++level) {
    for (const Part &part : parts(work, level)) names.insert(names.end(), part.ways.begin(), part.ways.end());
  }
  return names;
}

Limits::Traffic Limits::traffic(const std::string &isa, const Work &work, std::size_t level) const {
  Traffic traffic = {0, ""};
  double longest = 0;
  for (const Part &part : parts(work, level)) {
    const auto fastest = std::max_element(
        part.ways.begin(), part.ways.end(),
        [&](const std::string &a, const std::string &b) { return rate(isa, a) < rate(isa, b); });
    if (rate(isa, *fastest) == 0) return {0, ""};
    const double seconds = part.bytes / rate(isa, *fastest);
    traffic.seconds += seconds;
    if (seconds > longest) {
      longest = seconds;
      const std::size_t colon = fastest->find(':');
      traffic.longest_way = sets_[level].label + " " + fastest->substr(0, colon);
    }
  }
  return traffic;
}

Limits::Arithmetic Limits::time_of(double vectors, Uops uops, double fma_rate, double any_rate) {
  if (fma_rate == 0 || (has_additions(uops) && any_rate == 0)) return {0, 0};
  double seconds = vectors * uops.fma / fma_rate;
  if (has_additions(uops)) seconds = std::max(seconds, vectors * uops.all / any_rate);
  return {seconds, seconds * fma_rate};
}

Limits::Arithmetic Limits::arithmetic_of(const std::string &isa, const Work &work) const {
  const auto elements = static_cast<double>(work.elements);
  const auto instructions = [&](const std::string &what, double operations) {
    return rate(isa, what) / operations;
  };
  if (work.multiply_adds_of_tile > 0 && rate(isa, "products_bf16") > 0) {
    return time_of(std::ceil(elements / work.multiply_adds_of_tile), 1,
                   instructions("products_bf16", 2 * tile_of_bf16), 0);
  }
  if (work.byte_uops_per_vector.all > 0 && rate(isa, "products_i8") > 0) {
    return time_of(std::ceil(elements / lanes_of(isa, 1)), work.byte_uops_per_vector,
                   instructions("products_i8", operations_of_fma(isa, 1)),
                   instructions("fma_add_f32", operations_of_fma_add(isa, sizeof(float))));
  }
  return time_of(std::ceil(elements / lanes_of(isa, work.element_bytes)), work.uops_per_vector,
                 instructions(fma_of(work), operations_of_fma(isa, work.element_bytes)),
                 instructions(fma_add_of(work), operations_of_fma_add(isa, work.element_bytes)));
}

Bound Limits::bound(const std::string &isa, const Work &work) const {
  // Scalar code may return early for special values and skip the counted work.
  if (work.special_values && lanes_of(isa, work.element_bytes) == 1) return {};
  const std::size_t level = memory_level(work.footprint());
  const double beyond = overflow(level, work.footprint());
  Traffic bytes = traffic(isa, work, level);
  if (beyond > 0) {
    const Traffic next = traffic(isa, work, level + 1);
    if (bytes.seconds > 0 && next.seconds > 0) {
      bytes.seconds = (1 - beyond) * bytes.seconds + beyond * next.seconds;
      if (beyond > 0.5) bytes.longest_way = next.longest_way;
    }
  }
  const auto [seconds, uops] = arithmetic_of(isa, work);
  if (bytes.seconds == 0 || seconds == 0) return {};

  if (seconds >= bytes.seconds) return {seconds, uops, arithmetic};
  return {bytes.seconds, uops, bytes.longest_way};
}

}  // namespace rapt::bench
