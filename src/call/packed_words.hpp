// Packs 4-bit weights that lie in words, as files of GPTQ and AWQ have them, like other quantized weights
// (quantized_weights.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/quantized_weights.hpp"

namespace rapt {

// Integers of 4 bits in words of 32 bits.
struct Words {
  int format;  // one of rapt_word_format
  std::size_t inputs, outputs;
  const std::int32_t *codes, *zeros;

  unsigned code(std::size_t output, std::size_t input) const {
    if (format != RAPT_WORDS_AWQ) return nibble(codes[input / 8 * outputs + output], input % 8);
    return of_outputs(codes, input, output);
  }
  // Returns a zero, which may be 16.
  unsigned zero(std::size_t output, std::size_t group) const {
    return of_outputs(zeros, group, output) + (format == RAPT_WORDS_GPTQ ? 1U : 0U);
  }

 private:
  static unsigned nibble(std::int32_t word, std::size_t i) {
    return static_cast<std::uint32_t>(word) >> 4 * i & 15U;
  }
  // Words of 8 outputs. In AWQ, nibbles have outputs 0 2 4 6 1 3 5 7.
  unsigned of_outputs(const std::int32_t *words, std::size_t row, std::size_t output) const {
    const std::size_t i = output % 8, place = format == RAPT_WORDS_AWQ ? i / 2 + i % 2 * 4 : i;
    return nibble(words[row * (outputs / 8) + output / 8], place);
  }
};

// Returns whether every group has as many inputs as it should have. There is no memory for counts, and nothing may be
// written before. So it counts the inputs of one group at a time.
inline bool groups_are_full(const std::int32_t *groups, std::size_t inputs, std::size_t group) {
  for (std::size_t first = 0, g = 0; first < inputs; first += group, ++g) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < inputs; ++i)
      count += groups[i] >= 0 && static_cast<std::size_t>(groups[i]) == g ? 1 : 0;
    if (count != (inputs - first < group ? inputs - first : group)) return false;
  }
  return true;
}

// Sorts inputs by their groups, which are full, and keeps the order of those of a group: input order[k] comes to place
// k.
inline void sort_by_group(const std::int32_t *groups, std::size_t inputs, std::size_t group,
                          std::size_t *order) {
  constexpr std::size_t none = SIZE_MAX;
  for (std::size_t k = 0; k < inputs; ++k) order[k] = none;
  for (std::size_t i = 0; i < inputs; ++i) {
    std::size_t k = static_cast<std::size_t>(groups[i]) * group;
    while (order[k] != none) ++k;
    order[k] = i;
  }
}

// Packs a whole layer but for its header. `scales` are [groups][outputs]. Without an order, inputs keep theirs.
inline void pack_words(const rapt_linear_options &o, const Words &words, const std::size_t *order,
                       void *packed) {
  constexpr std::size_t block = linear_block;
  const QuantizedWeights layout(o, nullptr);
  const std::size_t groups = scale_groups(o), scale_size = layout.scale_size();
  char *to = static_cast<char *>(packed) + layout.blocks_begin();
  for (std::size_t first = 0; first < words.outputs; first += block, to += layout.block_size()) {
    const std::size_t count = words.outputs - first < block ? words.outputs - first : block;
    std::memset(to, 0, layout.block_size());
    for (std::size_t k = 0; k < words.inputs; k += 8) {
      for (std::size_t n = 0; n < block; ++n) {
        std::uint32_t word = 0x88888888;  // the zero of outputs that do not exist
        for (std::size_t j = 0; n < count && j < 8; ++j) {
          const unsigned code = words.code(first + n, order ? order[k + j] : k + j);
          const std::size_t shift = 8 * (j % 4) + 4 * (j / 4);
          word = (word & ~(15U << shift)) | code << shift;
        }
        std::memcpy(to + k / 8 * (4 * block) + 4 * n, &word, sizeof word);
      }
    }
    for (std::size_t g = 0; g < groups; ++g) {
      std::memcpy(to + layout.scales_begin() + g * block * scale_size,
                  static_cast<const char *>(o.w_scales) + (g * words.outputs + first) * scale_size,
                  count * scale_size);
      for (std::size_t n = 0; n < count; ++n)
        to[layout.zeros_begin() + g * block + n] = static_cast<char>(words.zero(first + n, g));
    }
  }
}

}  // namespace rapt
