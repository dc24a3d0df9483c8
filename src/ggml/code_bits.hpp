// How the 32 codes of a block, one a byte, and its halves and fifth bits become each other.
//
// The loops have fixed lengths and separate arrays, because compilers vectorise such loops without further
// checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rapt_ggml {

// Low halves become the first codes, high halves the others.
template <std::size_t count>
void load_halves(const std::uint8_t *__restrict halves, std::uint8_t *__restrict codes) {
  for (std::size_t i = 0; i < count; ++i) codes[i] = halves[i] & 15;
  for (std::size_t i = 0; i < count; ++i) codes[count + i] = static_cast<std::uint8_t>(halves[i] >> 4);
}

// Codes have four bits.
inline void store_halves(const std::uint8_t *__restrict codes, std::uint8_t *__restrict halves) {
  for (std::size_t i = 0; i < 16; ++i) halves[i] = static_cast<std::uint8_t>(codes[i] | codes[16 + i] << 4);
}

// `high` has the fifth bits. A product copies eight bits to eight bytes, a mask leaves bit i in byte i, and
// adding 127 carries it into bit 7.
inline void load_five_bits(const std::uint8_t *halves, const std::uint8_t *high,
                           std::uint8_t *__restrict codes) {
  std::uint8_t low[32], sixteens[32];
  load_halves<16>(halves, low);
  for (std::size_t i = 0; i < 4; ++i) {
    const std::uint64_t bits = high[i] * 0x0101010101010101U & 0x8040201008040201U;
    const std::uint64_t eight = ((bits + 0x7f7f7f7f7f7f7f7fU) & 0x8080808080808080U) >> 3;
    std::memcpy(sixteens + 8 * i, &eight, sizeof eight);
  }
  for (std::size_t i = 0; i < 32; ++i) codes[i] = low[i] | sixteens[i];
}

// The product adds bit 0 of byte i to bit 56 + i, and nothing carries into another.
inline void store_five_bits(const std::uint8_t *__restrict codes, std::uint8_t *__restrict halves,
                            std::uint8_t *__restrict high) {
  for (std::size_t i = 0; i < 16; ++i)
    halves[i] = static_cast<std::uint8_t>((codes[i] & 15) | codes[16 + i] << 4);
  for (std::size_t i = 0; i < 4; ++i) {
    std::uint64_t eight;
    std::memcpy(&eight, codes + 8 * i, sizeof eight);
    high[i] = static_cast<std::uint8_t>((eight >> 4 & 0x0101010101010101U) * 0x0102040810204080U >> 56);
  }
}

}  // namespace rapt_ggml
