// Checks exp and the tanh of softcaps in f32 for every float with a nontrivial result.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rapt::validate {

struct ExhaustiveResult {
  std::string function, isa;
  std::uint64_t inputs = 0;
  std::uint64_t mismatches = 0;
  std::uint32_t first_mismatch = 0;  // bits of the input
  std::uint32_t got = 0, expected = 0;
  const char *unit = "";
  double bound = 0;
  double worst_error = 0;
  float worst_input = 0;

  bool holds() const { return mismatches == 0 && worst_error < bound; }
};

using OnInputs = std::function<void(std::uint64_t done, std::uint64_t of)>;

// Checks every `stride`-th input on the scalar level and on the levels `isas`, using all cores.
std::vector<ExhaustiveResult> check_exp_exhaustively(const std::vector<std::string> &isas,
                                                     std::uint64_t stride, const OnInputs &progress);
// Checks magnitudes from 2^-26 to 10. Below this range tanh(x) is x, and above it tanh(x) is 1.
std::vector<ExhaustiveResult> check_tanh_exhaustively(const std::vector<std::string> &isas,
                                                      std::uint64_t stride, const OnInputs &progress);

}  // namespace rapt::validate
