// The shortest time that a call can take on this machine, by what the machine was measured to do.
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
  double uops = 0;       // arithmetic instructions of the call; 0 if none are counted
  std::string resource;  // arithmetic, or "L2 copy"
};

// The time of a call is at least the larger of
//   bytes: the sum of its parts, each over the bandwidth, measured in the level of the memory hierarchy that
//     holds all the call's memory, of the instructions that the part needs:
//       as many bytes read as written: those of copying, with normal or non-temporal stores, whichever is
//         faster there; in place: those of reading and writing the same memory;
//       what is read or written beyond that: those of loading and of storing;
//       where rows are gone through twice and a row does not fit the level above: those of loading it again;
//     memory up to twice as large as a level is taken to be partly there, partly in the next;
//   µops: vectors of elements x µops a vector (work.hpp) over the measured rate of fused multiply-adds.
// Latencies, the call itself, and shuffles and reductions at the end of a row are not in it: short calls
// cannot reach it.
class Limits {
 public:
  explicit Limits(std::vector<WorkingSet> levels) : levels_(std::move(levels)) {}

  // A rate, of the names that limit_cases() gives: bytes, or floating-point operations, or cycles, a second.
  // The best is kept: a machine is never faster than it is.
  void record(const std::string &isa, const std::string &what, double rate);
  double rate(const std::string &isa, const std::string &what) const;  // 0 if it was not measured
  const Rates &rates() const { return rates_; }
  // Code for a strong instruction set may also do what weaker ones do. Weakest first.
  void raise_to_weaker(const std::vector<std::string> &isas);

  // The level that holds so many bytes, or all that a cache can keep of them.
  std::size_t level_of(std::size_t footprint) const;

  // The names of the rates that bound() asks for.
  std::vector<std::string> needed_for(const Work &work) const;
  Bound bound(const std::string &isa, const Work &work) const;

 private:
  // Bytes that have to be moved in one of several ways, of which the fastest counts.
  struct Part {
    double bytes;
    std::vector<std::string> ways;
  };
  struct Traffic {
    double seconds;  // 0 where a bandwidth is unknown
    std::string longest_way;
  };
  // How much of that memory the level does not hold: from 0 at its size to 1 at twice its size.
  double overflow(std::size_t level, std::size_t footprint) const;
  std::vector<Part> parts(const Work &work, std::size_t level) const;
  Traffic traffic(const std::string &isa, const Work &work, std::size_t level) const;

  std::vector<WorkingSet> levels_;
  Rates rates_;
};

// Floating-point operations of a fused multiply-add on a register of the level.
double operations_of_fma(const std::string &isa, std::size_t element_bytes);

}  // namespace rapt::bench
