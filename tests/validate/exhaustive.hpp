// exp_f32 over every float.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rapt::validate {

struct ExhaustiveResult {
  std::string isa;
  std::uint64_t inputs = 0;
  std::uint64_t mismatches = 0;
  std::uint32_t first_mismatch = 0;  // an input
  std::uint32_t got = 0, expected = 0;
  double worst_ulps = 0;
  float worst_input = 0;

  bool holds() const { return mismatches == 0 && worst_ulps < 0.8925; }  // rapt.h's 0.892, to three digits
};

// On every core: each stride-th of all bit patterns, on the scalar level and on those named.
std::vector<ExhaustiveResult> check_exp_exhaustively(
    const std::vector<std::string> &isas, std::uint64_t stride,
    const std::function<void(std::uint64_t done, std::uint64_t of)> &progress);

}  // namespace rapt::validate
