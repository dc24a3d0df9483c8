// Computes the shortest time that a call can take on this machine, from the machine's measured rates.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/disturbance.hpp"
#include "support/work.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {

constexpr const char *arithmetic = "µops";

struct Bound {
  double seconds = 0;    // 0 where a rate or the work is unknown
  double uops = 0;       // multiply-adds that take as long as the call's arithmetic; 0 if not counted
  std::string resource;  // arithmetic, or "L2 copy"
};

// The limit is the larger of two times, one for traffic and one for arithmetic.
//
// The time of traffic is a sum of parts. Each part is bytes over a bandwidth, measured in the memory level
// that holds all memory of the call. The parts are:
//   bytes that are both read and written, at the bandwidth of copying with normal or non-temporal stores,
//     whichever is faster; in place, at the bandwidth of updating
//   the remaining bytes, at the bandwidth of loading or storing
//   the rows once more, at the bandwidth of loading, if a call passes over them twice and the next nearer
//     cache is too small for a row
// If the memory is larger than a level, but less than twice as large, it counts as partly in the level and
// partly in the next level.
//
// The time of arithmetic is vectors of elements x µops per vector (work.hpp) over a rate, the larger of:
//   the µops that only the FMA units execute, over the rate of multiply-adds
//   all µops, over the rate of a loop that has an addition after each multiply-add
// The two rates are equal on CPUs whose additions and multiply-adds use the same units.
//
// Neither time includes latencies, the call itself, shuffles or the reduction at the end of a row. Short
// calls therefore cannot reach the limit.
class Limits {
 public:
  explicit Limits(std::vector<WorkingSet> sets) : sets_(std::move(sets)) {}

  // Records a rate in bytes, operations or cycles per second. `what` is a name from limit_cases(). The best
  // rate is kept, because disturbance can only slow a machine down.
  void record(const std::string &isa, const std::string &what, double rate);
  double rate(const std::string &isa, const std::string &what) const;  // 0 if it was not measured
  const Rates &rates() const { return rates_; }
  // Raises each rate except the clock to the best rate of the weaker instruction sets, because stronger code
  // may use their instructions too. `isas` must be ordered weakest first.
  void raise_to_weaker(const std::vector<std::string> &isas);

  // Returns the nearest memory level that holds at least a part of `footprint` bytes, as an index into the
  // working sets.
  std::size_t memory_level(std::size_t footprint) const;

  // Returns the names of the rates that bound() asks for.
  std::vector<std::string> needed_for(const Work &work) const;
  Bound bound(const std::string &isa, const Work &work) const;

 private:
  // Describes bytes that can move in several ways. The fastest way counts.
  struct Part {
    double bytes;
    std::vector<std::string> ways;
  };
  struct Arithmetic {
    double seconds;  // 0 where a rate is unknown
    double uops;
  };
  struct Traffic {
    double seconds;  // 0 where a bandwidth is unknown
    std::string longest_way;
  };
  // Returns the fraction of the memory that the level does not hold: 0 up to the level's size, 1 from twice
  // that size on.
  double overflow(std::size_t level, std::size_t footprint) const;
  // Returns the time of `uops` instructions for each of `vectors` registers. fma_rate and any_rate are in
  // instructions per second.
  static Arithmetic time_of(double vectors, Uops uops, double fma_rate, double any_rate);
  Arithmetic arithmetic_of(const std::string &isa, const Work &work) const;
  std::vector<Part> parts(const Work &work, std::size_t level) const;
  Traffic traffic(const std::string &isa, const Work &work, std::size_t level) const;

  std::vector<WorkingSet> sets_;
  Rates rates_;
};

// operations_of_fma() returns the number of operations of a multiply-add on one register.
// operations_of_fma_add() returns the mean for a multiply-add and an addition.
double operations_of_fma(const std::string &isa, std::size_t element_bytes);
double operations_of_fma_add(const std::string &isa, std::size_t element_bytes);

}  // namespace rapt::bench
