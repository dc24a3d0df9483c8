// The 64-bit FNV-1a hash of numbers, byte by byte in little-endian order.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

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

}  // namespace decoder
