// Hashes of what a decoder computes: 64-bit FNV-1a of numbers, byte by byte in little-endian order.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "examples/decoder/generate.hpp"

namespace decoder {

class Hash {
 public:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  void add(std::uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) add_byte(static_cast<unsigned char>(number >> shift));
  }
  void add(std::span<const float> numbers) {
    for (const float number : numbers) add(std::bit_cast<std::uint32_t>(number));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

// The hash of a sequence's tokens, prompt and all.
inline std::uint64_t hash_of_tokens(const Sequence &sequence) {
  Hash hash;
  for (const std::uint32_t token : sequence.tokens) hash.add(token);
  return hash.value();
}

struct HashedReport : Report {
  std::vector<Hash> logits;  // of each sequence
};

// Decodes like generate(), and hashes the logits.
inline HashedReport generate_hashed(Model &model, std::vector<std::vector<std::uint32_t>> prompts,
                                    const Plan &plan) {
  HashedReport report;
  report.logits.resize(prompts.size());
  static_cast<Report &>(report) = generate(
      model, std::move(prompts), plan,
      [&](std::size_t sequence, std::span<const float> logits) { report.logits[sequence].add(logits); });
  return report;
}

}  // namespace decoder
