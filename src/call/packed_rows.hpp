// Turns outputs of packed weights into numbers: rows of an embedding that shares the weights of a linear layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/packed_weights.hpp"
#include "call/quantized_weights.hpp"

namespace rapt {

// The numbers of an output are computed in parts: a multiple of every scale group, and of the inputs of every unit.
inline constexpr std::size_t part_of_row = 256;

// Copies the weights of an output's inputs [first, first + count). `packed` is without its header.
template <class E>
void copy_weights(const E *packed, std::size_t output, std::size_t first, std::size_t count,
                  std::size_t in_features, E *to) {
  constexpr std::size_t group = packed_group<E>;
  constexpr std::size_t ahead =
      32;  // inputs; a row's lines are too far apart for what the CPU does by itself
  const E *from = packed + packed_weight_offset<E>(output, first, in_features);
  for (std::size_t k = 0; k < count; k += group, from += group * linear_block) {
    __builtin_prefetch(from + ahead * linear_block);
    for (std::size_t j = 0; j < group && k + j < count; ++j) to[k + j] = from[j];
  }
}

// Copies an output's codes of whole units. `words` are the output's in the first of them.
template <unsigned bits>
void copy_codes(const std::uint8_t *words, std::size_t count, std::uint8_t *to) {
  constexpr CodeUnit unit = CodeUnit::of(bits);
  constexpr std::size_t units_ahead = 128 / unit.inputs;
  constexpr std::uint32_t each_byte = 0x01010101, quads_of_plane = 8 / unit.low;
  const auto word = [&](std::size_t plane) {
    std::uint32_t four;
    std::memcpy(&four, words + plane * CodeUnit::plane, sizeof four);
    return four;
  };
  for (std::size_t k = 0; k < count; k += unit.inputs, words += unit.bytes()) {
    for (std::size_t plane = 0; plane < unit.planes; ++plane)
      __builtin_prefetch(words + units_ahead * unit.bytes() + plane * CodeUnit::plane);
    for (unsigned quad = 0; quad < unit.inputs / 4; ++quad) {
      std::uint32_t codes = word(quad / quads_of_plane) >> unit.low * (quad % quads_of_plane) &
                            ((1U << unit.low) - 1) * each_byte;
      if constexpr (unit.more > 0)
        codes |= (word(unit.planes - 1) >> unit.more * quad & ((1U << unit.more) - 1) * each_byte)
                 << unit.low;
      std::memcpy(to + k + 4 * quad, &codes, sizeof codes);
    }
  }
}
inline void copy_codes(unsigned bits, const std::uint8_t *words, std::size_t count, std::uint8_t *to) {
  switch (bits) {
    case 2:
      return copy_codes<2>(words, count, to);
    case 3:
      return copy_codes<3>(words, count, to);
    case 4:
      return copy_codes<4>(words, count, to);
    case 5:
      return copy_codes<5>(words, count, to);
    case 6:
      return copy_codes<6>(words, count, to);
    default:
      return copy_codes<8>(words, count, to);
  }
}

// Computes the numbers of an output's inputs [first, first + count), where `first` is a multiple of part_of_row, and
// `count` at most that. They are those of rapt_dequantize_rows.
inline void compute_numbers(const QuantizedWeights &from, std::size_t scale_group, std::size_t output,
                            std::size_t first, std::size_t count, float *to) {
  std::uint8_t codes[part_of_row];
  copy_codes(from.bits(), from.codes(output, first), count, codes);
  float codebook[16];
  for (unsigned q = 0; from.has_codebook() && q < 16; ++q) codebook[q] = from.codebook(q);
  const std::size_t together = scale_group && scale_group < count ? scale_group : count;
  for (std::size_t k = 0; k < count; k += together) {
    const std::size_t group = from.group_of(first + k), end = count - k < together ? count : k + together;
    const float scale = from.scale(output, group);
    if (from.f8()) {
      for (std::size_t i = k; i < end; ++i) to[i] = from.f8().number(codes[i]) * scale;
    } else if (from.has_codebook()) {
      for (std::size_t i = k; i < end; ++i) to[i] = codebook[codes[i]] * scale;
    } else {
      const int zero = from.zero(output, group);
      for (std::size_t i = k; i < end; ++i) to[i] = static_cast<float>(codes[i] - zero) * scale;
    }
    if (!from.has_offsets()) continue;
    const float offset = from.offset(output, group);
    for (std::size_t i = k; i < end; ++i) to[i] += offset;
  }
}

}  // namespace rapt
