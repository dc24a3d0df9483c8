// Draws the same random numbers on every platform, using only integers and exact floating-point arithmetic. A fuzzer's
// bytes decide in place of the generator as long as they last.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace rapt::test {

// The generator is xoshiro256**, seeded by splitmix64 (Blackman and Vigna).
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (auto &word : state_) {
      seed += 0x9e3779b97f4a7c15u;
      std::uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  // The first bytes are the seed. The others are the first decisions.
  Random(const std::uint8_t *bytes, std::size_t size) : Random(seed_of(bytes, size)) {
    at_ = bytes + std::min(size, seed_bytes);
    end_ = bytes + size;
  }

  std::uint64_t next() {
    const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  std::size_t below(std::size_t bound) {
    return static_cast<std::size_t>((at_ == end_ ? next() : decision(bound)) % bound);
  }
  bool one_in(std::size_t count) { return below(count) == 0; }
  template <class T, std::size_t count>
  T one_of(const T (&values)[count]) {
    return values[below(count)];
  }

  // Returns a multiple of 2^-53 in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  // Returns a number with mean 0 and variance 1, at most 6.9 in magnitude. It sums sixteen 16-bit uniforms,
  // because libm's logarithms and cosines differ between platforms.
  double gaussian() {
    std::int64_t sum = 0;
    for (int draw = 0; draw < 4; ++draw) {
      const std::uint64_t bits = next();
      for (int shift = 0; shift < 64; shift += 16) sum += static_cast<std::int64_t>((bits >> shift) & 0xffff);
    }
    const std::int64_t doubled_mean = 16 * 65535;
    return static_cast<double>(2 * sum - doubled_mean) * (1.0 / 151348.9);  // 2 * sqrt(16 * 65536^2 / 12)
  }

 private:
  static constexpr std::size_t seed_bytes = 4;
  static std::uint64_t seed_of(const std::uint8_t *bytes, std::size_t size) {
    std::uint64_t seed = 0;
    for (std::size_t i = 0; i < std::min(size, seed_bytes); ++i) seed = seed << 8 | bytes[i];
    return seed;
  }
  // Takes one byte, or two if one cannot reach all numbers below the bound.
  std::uint64_t decision(std::size_t bound) {
    std::uint64_t number = *at_++;
    if (bound > 256 && at_ != end_) number |= std::uint64_t{*at_++} << 8;
    return bound > 65536 ? number * (bound / 65536) : number;
  }
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  std::array<std::uint64_t, 4> state_;
  const std::uint8_t *at_ = nullptr, *end_ = nullptr;
};

}  // namespace rapt::test
