// The measurements of the machine, and the meter that makes them.
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

// The kernel's name in benchmarks of limits: limit/avx2/load:L1.
constexpr const char *limit_kernel = "limit";

struct LimitCase {
  std::string isa;
  std::string what;
  std::size_t bytes;  // of the memory that a pass goes over
  // Ways to do the same. Each returns how many bytes, floating-point operations or cycles it did.
  std::vector<std::function<double(char *memory)>> ways;
};

// Whether Linux permits AMX tiles to the code of an instruction set: without that their loop dies.
using MayUseTiles = bool (*)(const std::string &isa);

// In the order of the tables: fma_f32, fma_f64, the same with additions, clock; then per memory level load, store, copy, copy_nt,
// update.
std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas, const std::vector<WorkingSet> &sets,
                                   MayUseTiles may_use_tiles);

// Measures limits between the kernels. Each takes a millisecond, or three passes over memory.
class LimitMeter {
 public:
  explicit LimitMeter(std::vector<LimitCase> cases);

  const std::vector<LimitCase> &cases() const { return cases_; }

  // One pass, in the way that was the fastest so far. All limits share one memory and use the place in it that
  // move() chose last.
  double pass(const LimitCase &limit);

  // The best rate of several intervals, which take turns among the ways; 0 if there is no such limit.
  double measure(const std::string &isa, const std::string &what);

 private:
  // Chooses other pages, because some pages collide in a cache where those of the kernels do not.
  void move(const LimitCase &limit);
  double pass(const LimitCase &limit, std::size_t way);

  std::vector<LimitCase> cases_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_of_;
  std::vector<std::size_t> passes_;   // per interval, by case; 0: not known yet
  std::vector<std::size_t> fastest_;  // way, by case
  Buffer<char> memory_{0};
  std::size_t place_ = 0;
};

}  // namespace rapt::bench
