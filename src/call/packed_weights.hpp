// Defines the layout of packed weights. In a block of 64 outputs, the weights of one input are contiguous;
// bf16 has them in pairs of inputs, as the instructions that multiply bf16 need them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "call/transposed_copy.hpp"
#include "contract/linear.hpp"
#include "contract/types.hpp"

namespace rapt {

// Weights of type E lie in groups of this many inputs.
template <class E>
inline constexpr std::size_t packed_group = std::is_same_v<E, BF16> ? 2 : 1;

// Returns the number of elements of a block of outputs.
template <class E>
constexpr std::size_t packed_block_length(std::size_t in_features) {
  constexpr std::size_t group = packed_group<E>;
  return (in_features + group - 1) / group * group * linear_block;
}
template <class E>
constexpr std::size_t packed_weight_offset(std::size_t output, std::size_t input, std::size_t in_features) {
  constexpr std::size_t group = packed_group<E>;
  return output / linear_block * packed_block_length<E>(in_features) + input / group * group * linear_block +
         output % linear_block * group + input % group;
}

// Packs the outputs [first, first + outputs), which are stored at w. `first` is a multiple of 64. The rest
// of the last block becomes 0, and so does what an odd number of inputs leaves of a pair.
template <class E>
void pack_weights(const E *w, std::ptrdiff_t output_stride, std::ptrdiff_t input_stride, std::size_t first,
                  std::size_t outputs, std::size_t in_features, E *packed) {
  constexpr auto size = static_cast<std::ptrdiff_t>(sizeof(E));
  const std::size_t padded = packed_block_length<E>(in_features) / linear_block;
  for (std::size_t n = 0; n < outputs; n += linear_block) {
    E *const block = packed + packed_weight_offset<E>(first + n, 0, in_features);
    const E *const from = w + output_stride * static_cast<std::ptrdiff_t>(n);
    const std::size_t left = outputs - n < linear_block ? outputs - n : linear_block;
    constexpr std::size_t unit = sizeof(E) * packed_group<E>;
    std::size_t k = 0;
    if (input_stride == 1 && left % TransposedSquare<unit>::side == 0) {
      if (left < linear_block) std::memset(static_cast<void *>(block), 0, padded * linear_block * sizeof(E));
      k = packed_group<E> * copy_transposed<unit>(from, output_stride * size, left,
                                                  in_features / packed_group<E>, block, linear_block);
    }
    for (; k < padded; ++k) {
      for (std::size_t i = 0; i < linear_block; ++i) {
        const bool exists = n + i < outputs && k < in_features;
        block[packed_weight_offset<E>(i, k, in_features)] =
            exists ? from[output_stride * static_cast<std::ptrdiff_t>(i) +
                          input_stride * static_cast<std::ptrdiff_t>(k)]
                   : E{};
      }
    }
  }
}

}  // namespace rapt
