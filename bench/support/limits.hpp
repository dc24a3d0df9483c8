// The shortest time that a call can take on this machine, from the measured rates of the machine.
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
  double seconds = 0;  // 0 where a rate or the work is unknown
  double uops = 0;     // multiply-adds that take as long as the arithmetic of the call; 0 if none is counted
  std::string resource;  // arithmetic, or "L2 copy"
};

// The limit is the larger of two times.
//
// Traffic is a sum of parts. Each part is bytes over a bandwidth, measured in the memory level that holds all
// memory of the call:
//   the bytes that are both read and written: copying, with normal or non-temporal stores, whichever is
//   faster;
//     in place: updating
//   the bytes beyond those: loading or storing
//   the rows again, if a call passes over them twice and the next nearer cache does not hold a row: loading
// Memory up to twice as large as a level counts as partly there and partly in the next level.
//
// Arithmetic is vectors of elements x µops per vector (work.hpp), and the larger of two times: of those for the
// units of fused multiply-adds, over their measured rate, and of all, over the measured rate of a loop that adds
// a number after each multiply-add. The two rates are equal where the same units do both.
//
// Neither includes latencies, the call itself, shuffles or the reduction at the end of a row, so that short
// calls cannot reach the limit.
class Limits {
 public:
  explicit Limits(std::vector<WorkingSet> sets) : sets_(std::move(sets)) {}

  // Records a rate by its name in limit_cases(): bytes, floating-point operations or cycles per second. The
  // best one is kept, because disturbance can only slow a machine down.
  void record(const std::string &isa, const std::string &what, double rate);
  double rate(const std::string &isa, const std::string &what) const;  // 0 if it was not measured
  const Rates &rates() const { return rates_; }
  // Code for a strong instruction set may also use the instructions of weaker ones. `isas` are weakest first.
  void raise_to_weaker(const std::vector<std::string> &isas);

  // The nearest memory level that holds at least part of that many bytes, as an index into the working sets.
  std::size_t memory_level(std::size_t footprint) const;

  // The names of the rates that bound() asks for.
  std::vector<std::string> needed_for(const Work &work) const;
  Bound bound(const std::string &isa, const Work &work) const;

 private:
  // Bytes that can move in several ways; the fastest way counts.
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
  // The fraction of that memory that the level does not hold: from 0 at its size to 1 at twice its size.
  double overflow(std::size_t level, std::size_t footprint) const;
  // `vectors` of such instructions at those rates of instructions.
  static Arithmetic time_of(double vectors, Uops uops, double fma_rate, double any_rate);
  Arithmetic arithmetic_of(const std::string &isa, const Work &work) const;
  std::vector<Part> parts(const Work &work, std::size_t level) const;
  Traffic traffic(const std::string &isa, const Work &work, std::size_t level) const;

  std::vector<WorkingSet> sets_;
  Rates rates_;
};

// Floating-point operations of a fused multiply-add on a register of the instruction set; and of an instruction
// of the loop whose every second one is an addition.
double operations_of_fma(const std::string &isa, std::size_t element_bytes);
double operations_of_fma_add(const std::string &isa, std::size_t element_bytes);
inline constexpr double multiply_adds_of_tile = 16 * 16 * 32;  // of one product of AMX tiles

}  // namespace rapt::bench
