// Packs weights that lie in words, as files of GPTQ and AWQ have them, like other quantized weights
// (quantized_weights.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/quantized_weights.hpp"

namespace rapt {

// What a rapt_word_format says of integers, which follow each other in the bits of the words.
struct WordFormat {
  unsigned bits = 0;  // 0: the format does not go with the type
  bool is_awq = false;
  unsigned added = 0;  // to what words have in place of a zero

  static constexpr WordFormat of(int format, rapt_type type) {
    if (type == RAPT_U8 && format != RAPT_WORDS_GPTQ && format != RAPT_WORDS_GPTQ_V2) return {};
    switch (format) {
      case RAPT_WORDS_GPTQ:
      case RAPT_WORDS_GPTQ_V2:
        return {type == RAPT_U8 ? 8U : 4U, false, format == RAPT_WORDS_GPTQ};
      case RAPT_WORDS_AWQ:
        return {4, true, 0};
      case RAPT_WORDS_GPTQ_2BIT:
      case RAPT_WORDS_GPTQ_V2_2BIT:
        return {2, false, format == RAPT_WORDS_GPTQ_2BIT};
      case RAPT_WORDS_GPTQ_3BIT:
      case RAPT_WORDS_GPTQ_V2_3BIT:
        return {3, false, format == RAPT_WORDS_GPTQ_3BIT};
      default:
        return {};
    }
  }
  // How many integers fill whole words.
  constexpr std::size_t unit() const { return bits == 3 ? 32 : 32 / bits; }
  // Returns the words of the whole units in so many integers.
  constexpr std::size_t words_of(std::size_t integers) const {
    return integers / unit() * (bits == 3 ? 3 : 1);
  }
};

struct Words {
  WordFormat format;
  std::size_t inputs, outputs;
  const std::int32_t *codes, *zeros;

  unsigned code(std::size_t output, std::size_t input) const {
    if (!format.is_awq) return integer(codes + output, outputs, input);
    return of_outputs(codes, input, output);
  }
  // Returns a zero, which may be one more than the largest integer.
  unsigned zero(std::size_t output, std::size_t group) const {
    return of_outputs(zeros, group, output) + format.added;
  }
  // Returns whether every zero of the groups is a byte.
  bool zeros_are_bytes(std::size_t groups) const {
    for (std::size_t g = 0; format.bits == 8 && format.added && g < groups; ++g) {
      for (std::size_t n = 0; n < outputs; ++n) {
        if (zero(n, g) > 255) return false;
      }
    }
    return true;
  }

 private:
  // Returns integer i of words that are `stride` apart. Of 3 bits, it may begin in one word and end in the next.
  unsigned integer(const std::int32_t *words, std::size_t stride, std::size_t i) const {
    const std::size_t in_unit = i % format.unit() * format.bits, bit = in_unit % 32;
    words += (format.words_of(i) + in_unit / 32) * stride;
    std::uint32_t found = static_cast<std::uint32_t>(*words) >> bit;
    if (bit + format.bits > 32) found |= static_cast<std::uint32_t>(words[stride]) << (32 - bit);
    return found & ((1U << format.bits) - 1);
  }
  // In AWQ, nibbles have outputs 0 2 4 6 1 3 5 7.
  unsigned of_outputs(const std::int32_t *words, std::size_t row, std::size_t output) const {
    const std::size_t i = output % 8, place = format.is_awq ? output - i + i / 2 + i % 2 * 4 : output;
    return integer(words + row * format.words_of(outputs), 1, place);
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
    const std::size_t inputs = layout.unit().inputs;  // of a word
    for (std::size_t k = 0; k < words.inputs; k += inputs) {
      for (std::size_t n = 0; n < block; ++n) {
        std::uint32_t word = layout.is_bytes() ? 0x80808080 : 0x88888888;  // where outputs do not exist
        if (n < count) {
          word = 0;
          for (std::size_t j = 0; j < inputs; ++j)
            word |= words.code(first + n, order ? order[k + j] : k + j) << (8 * (j % 4) + 4 * (j / 4));
        }
        std::memcpy(to + k / inputs * (4 * block) + 4 * n, &word, sizeof word);
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
