// Defines the measurements of the machine's limits, and the meter that makes them.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "support/buffer.hpp"
#include "support/working_sets.hpp"

namespace rapt::bench {

// Benchmarks of limits have this kernel name, as in limit/avx2/load:L1.
constexpr const char *limit_kernel = "limit";

struct LimitCase {
  std::string isa;
  std::string what;
  std::size_t bytes;  // memory that a pass accesses
  // Holds alternative loops for the same work. Each one returns the number of bytes, operations or cycles.
  std::vector<std::function<double(char *memory)>> ways;
};

// Returns whether Linux lets the code of an instruction set use AMX tiles. Without permission, the loop over
// tiles would crash.
using MayUseTiles = bool (*)(const std::string &isa);

// Returns the cases of each instruction set in the order of the tables: fma_f32, fma_f64, fma_add_f32,
// fma_add_f64 and clock. products_i8 and products_bf16 follow where the instruction set has them. Each memory
// level then has load, store, copy, copy_nt and update.
std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas, const std::vector<WorkingSet> &sets,
                                   MayUseTiles may_use_tiles);

// Measures limits between the benchmarks of kernels. A measurement takes at least a millisecond and three
// passes.
class LimitMeter {
 public:
  explicit LimitMeter(std::vector<LimitCase> cases);

  const std::vector<LimitCase> &cases() const { return cases_; }

  // Makes one pass with the loop that was fastest so far. All limits share one buffer, and start at the
  // offset that move() chose last.
  double pass(const LimitCase &limit);

  // Measures several intervals, which use the loops in `ways` in turn, and returns the best rate. Returns 0
  // if no case has this name.
  double measure(const std::string &isa, const std::string &what);
  // Measures with the loop that was fastest so far, and at least two passes: next to each row, more passes over
  // memory would take longer than the row.
  double measure_again(const std::string &isa, const std::string &what);

 private:
  double measure(std::size_t index, bool again);
  // Chooses other pages of the buffer, because pages that collide in a cache would make the limit too low.
  void move(const LimitCase &limit);
  double pass(const LimitCase &limit, std::size_t way);

  std::vector<LimitCase> cases_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_of_;
  std::vector<std::size_t> passes_;   // passes per interval, by case; 0 if not known yet
  std::vector<std::size_t> fastest_;  // index into `ways`, by case
  Buffer<char> memory_{0};
  std::size_t place_ = 0;
};

}  // namespace rapt::bench
