// Turns codes, scales and offsets that came from blocks into these blocks again.
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ggml/blocks.hpp"
#include "ggml/code_bits.hpp"
#include "ggml/formats.hpp"
#include "ggml/halves.hpp"

namespace rapt_ggml {
namespace {

// Says which of 16 integers a byte is. If an integer is there twice, as 0 of e2m1_values, it is the first.
constexpr std::array<Byte, 256> places_of(const std::array<std::int8_t, 16> &values) {
  std::array<Byte, 256> places{};
  for (std::size_t i = values.size(); i-- > 0;) places[static_cast<Byte>(values[i])] = static_cast<Byte>(i);
  return places;
}
constexpr std::array<Byte, 256> iq4_places = places_of(iq4_values), e2m1_places = places_of(e2m1_values);

void store_as_half(float number, Byte *half) { store_half(float_to_half(number), half); }

// Two codes a byte in rapt's order become ggml's: inputs 0 to 15 in low halves, 16 to 31 in high ones.
void halves_of_pairs(const Byte *__restrict pairs, Byte *__restrict halves) {
  for (std::size_t i = 0; i < 8; ++i) {
    halves[2 * i] = static_cast<Byte>((pairs[i] & 15) | pairs[8 + i] << 4);
    halves[2 * i + 1] = static_cast<Byte>(pairs[i] >> 4 | (pairs[8 + i] & 0xf0));
  }
}

void halves_of_places(const Byte *codes, const std::array<Byte, 256> &places, Byte *halves) {
  for (std::size_t i = 0; i < 16; ++i)
    halves[i] = static_cast<Byte>(places[codes[i]] | places[codes[16 + i]] << 4);
}

void repack(const Byte *codes, const float *scales, const float *, BlockQ8_0 &block) {
  store_as_half(scales[0], block.scale);
  std::memcpy(block.codes, codes, sizeof block.codes);
}

void repack(const Byte *codes, const float *scales, const float *, BlockQ4_0 &block) {
  store_as_half(scales[0], block.scale);
  halves_of_pairs(codes, block.codes);
}

void repack(const Byte *codes, const float *scales, const float *offsets, BlockQ4_1 &block) {
  store_as_half(scales[0], block.scale);
  store_as_half(offsets[0], block.offset);
  halves_of_pairs(codes, block.codes);
}

void repack(const Byte *codes, const float *scales, const float *, BlockQ5_0 &block) {
  store_as_half(scales[0], block.scale);
  Byte from_zero[32];
  for (std::size_t i = 0; i < 32; ++i) from_zero[i] = static_cast<Byte>(codes[i] + 16);
  store_five_bits(from_zero, block.codes, block.high);
}

void repack(const Byte *codes, const float *scales, const float *offsets, BlockQ5_1 &block) {
  store_as_half(scales[0], block.scale);
  store_as_half(offsets[0], block.offset);
  store_five_bits(codes, block.codes, block.high);
}

void repack(const Byte *codes, const float *scales, const float *, BlockIQ4_NL &block) {
  store_as_half(scales[0], block.scale);
  halves_of_places(codes, iq4_places, block.codes);
}

// The scales are 2^(exponent - 128), where exponents 0 and 1 are subnormal.
void repack(const Byte *codes, const float *scales, const float *, BlockMXFP4 &block) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(scales[0]);
  block.exponent = static_cast<Byte>(bits < 1U << 23 ? bits >> 22 : (bits >> 23) + 1);
  halves_of_places(codes, e2m1_places, block.codes);
}

template <class Block>
concept Repackable = requires(const Byte *codes, const float *scales, Block &block) {
  repack(codes, scales, scales, block);
};

}  // namespace

bool can_repack(ggml_type type) {
  bool can = false;
  with_block(type, [&]<class Block>(const Block &) { can = Repackable<Block>; });
  return can;
}

void repack_row(ggml_type type, const std::uint8_t *codes, const float *scales, const float *offsets,
                std::size_t n, void *row) {
  with_block(type, [&]<class Block>(const Block &) {
    if constexpr (Repackable<Block>) {
      auto *blocks = static_cast<Block *>(row);
      for (std::size_t i = 0; i < n / Block::elements; ++i) {
        repack(codes, scales, offsets, blocks[i]);
        codes += Block::format.code_bytes(Block::elements);
        scales += Block::format.groups(Block::elements);
        if (Block::format.offsets) offsets += Block::format.groups(Block::elements);
      }
    }
  });
}

}  // namespace rapt_ggml
