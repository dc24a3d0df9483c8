// Checks the results of one kernel on every level: their bits, accuracy and hash.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/kernel_case.hpp"
#include "validate/accuracy.hpp"
#include "validate/cases.hpp"

namespace rapt::validate {

// Describes a case whose result differs from that of the scalar level.
struct Failure {
  std::string kernel, isa;
  test::Case failing;
  std::string difference;            // description of the first difference
  std::vector<std::string> inputs;   // the bits of the first few elements of each operand
  std::vector<std::string> outputs;  // "index 3: got 0x…, expected 0x…"
};

struct LevelResult {
  std::string kernel, isa;
  std::string inherits;  // the level that implements the kernel for this level; then nothing else is set
  std::size_t cases = 0;
  std::size_t mismatches = 0;
  bool stopped = false;  // not all cases ran, because too many crashed
  std::uint64_t hash = 0;
  std::optional<double> worst;   // largest error, in accuracy_of(kernel)->unit
  std::size_t inaccurate = 0;    // number of problems whose error exceeds rapt.h's bound
  std::string first_inaccurate;  // the text of the first such case
  std::string inaccurate_error;  // its error and bound
  std::optional<Failure> failure;
  std::vector<std::string> broken_rules;  // rules of directed cases that mismatched

  bool holds(std::optional<std::uint64_t> published) const {
    if (!inherits.empty()) return true;
    return mismatches == 0 && !stopped && inaccurate == 0 && (!published || *published == hash);
  }
};

using OnProgress = std::function<void(std::size_t done, std::size_t of)>;

// Runs each problem once on the scalar level, in its first layout. All other levels must give the same
// results in every layout. Skips levels that inherit the kernel from another level in `isas`.
std::vector<LevelResult> check_kernel(const test::KernelCase &kernel, const std::vector<std::string> &isas,
                                      Effort effort, std::uint64_t seed, const OnProgress &progress);

// Returns the hash of a kernel's results on one level, each problem in its first layout, or nothing if a case fails.
std::optional<std::uint64_t> hash_kernel(const test::KernelCase &kernel, const std::string &isa,
                                         Effort effort, const OnProgress &progress);

// Checks one case on the scalar level and on the levels `isas`.
std::vector<LevelResult> check_case(const test::KernelCase &kernel, const std::vector<std::string> &isas,
                                    const test::Case &given);

}  // namespace rapt::validate
