// The 64-bit FNV-1a hash of numbers, byte by byte in little-endian order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace decoder {

class Hash {
 public:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }
  void add(std::uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) add_byte(static_cast<unsigned char>(number >> shift));
  }
  // Every NaN counts as the same one, because the bits of a NaN are not promised.
  void add(const float *numbers, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(numbers[i]);
      add((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc00000 : bits);
    }
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace decoder
