// The 64-bit hash of results that hashes.def publishes.
#pragma once

#include <cstdint>
#include <vector>

namespace rapt::validate {

// Over 64-bit words in order: not for adversaries, but a word that differs, is missing or is elsewhere shows.
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

// Of one call: how many results it has, and their bits.
inline std::uint64_t hash_of(const std::vector<std::uint64_t> &bits) {
  Hash hash;
  hash.add(bits.size());
  for (const std::uint64_t word : bits) hash.add(word);
  return hash.value();
}

}  // namespace rapt::validate
