// Runs a short decoder, which uses all functions of a language model one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace rapt::validate {

struct DecoderResult {
  std::string isa;
  std::size_t models = 0;          // choices of weights, arithmetic and cache
  std::vector<std::string> wrong;  // the models whose tokens or logits are not the published ones
  std::uint64_t hash = 0;          // of the logits of all models

  bool holds() const { return wrong.empty(); }
};

inline constexpr const char *decoder_name = "decoder";  // for --kernel

std::vector<DecoderResult> check_decoder(
    const std::vector<std::string> &isas,
    const std::function<void(std::size_t done, std::size_t of)> &progress);

}  // namespace rapt::validate
