// The loops that measure the machine rather than a kernel, and the meter that runs them.
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

// The kernel that they are filed under: limit/avx2/load:L1.
constexpr const char *limit_kernel = "limit";

struct LimitCase {
  std::string isa;
  std::string what;
  std::size_t bytes;  // of memory that the pass goes over
  // Returns the bytes, floating-point operations or cycles that it took.
  std::function<double(char *memory)> pass;
};

// In the order in which they are shown: fma_f32, fma_f64, clock, then by level load, store, copy, copy_nt and
// update.
std::vector<LimitCase> limit_cases(const std::vector<std::string> &isas,
                                   const std::vector<WorkingSet> &levels);

// Measures limits beside the kernels, each in a millisecond or, of memory, three passes.
class LimitMeter {
 public:
  explicit LimitMeter(std::vector<LimitCase> cases);

  const std::vector<LimitCase> &cases() const { return cases_; }

  // One pass. The memory is kept: all limits share it, each at the place that move() chose last.
  double pass(const LimitCase &limit);

  // The best rate of several windows, in CPU time; 0 if there is no such limit.
  double measure(const std::string &isa, const std::string &what);

 private:
  // To other pages: some lie badly in a cache, and the kernels' own do not.
  void move(const LimitCase &limit);

  std::vector<LimitCase> cases_;
  std::map<std::pair<std::string, std::string>, std::size_t> index_of_;
  std::vector<std::size_t> passes_;  // of a window, by case; 0: not known yet
  Buffer<char> memory_{0};
  std::size_t place_ = 0;
};

}  // namespace rapt::bench
