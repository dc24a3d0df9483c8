// Computes the 64-bit hash of results that hashes.def publishes.
#pragma once

#include <cstdint>
#include <vector>

namespace rapt::validate {

// Hashes 64-bit words in order. It is not cryptographic, but shows a changed, missing or moved word.
class Hash {
 public:
  void add(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15u;
    state_ ^= state_ >> 32;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0x72617074u;
};

// Returns the hash of one call's results: of their number and their bits.
inline std::uint64_t hash_of(const std::vector<std::uint64_t> &bits) {
  Hash hash;
  hash.add(bits.size());
  for (const std::uint64_t word : bits) hash.add(word);
  return hash.value();
}

}  // namespace rapt::validate
