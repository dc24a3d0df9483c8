// Defines the layout of packed keys: in a block of 64 keys, the 64 elements of one dimension are contiguous.
#pragma once

#include <cstddef>

#include "call/transposed_copy.hpp"
#include "contract/attention.hpp"

namespace rapt {

inline constexpr std::size_t packed_dim_stride = attention_block;

// Returns the offset of a key's first dimension.
constexpr std::size_t packed_key_offset(std::size_t key, std::size_t qk_dim) {
  return key / attention_block * attention_block * qk_dim + key % attention_block;
}

// Packs the keys [first, first + tokens) of a sequence, which are stored at k. Other keys of a block stay as
// they are.
template <class E>
void pack_keys(const E *k, std::ptrdiff_t token_stride, std::size_t first, std::size_t tokens,
               std::size_t qk_dim, E *packed) {
  constexpr std::size_t side = TransposedSquare<sizeof(E)>::side;
  for (std::size_t i = 0; i < tokens;) {
    E *const to = packed + packed_key_offset(first + i, qk_dim);
    const E *const from = k + token_stride * static_cast<std::ptrdiff_t>(i);
    const std::size_t of_block = attention_block - (first + i) % attention_block;
    const std::size_t left = tokens - i < of_block ? tokens - i : of_block;
    const std::size_t squares = left / side * side, rows = squares > 0 ? squares : 1;
    std::size_t d = 0;
    if (squares > 0) {
      d = copy_transposed<sizeof(E)>(from, token_stride * static_cast<std::ptrdiff_t>(sizeof(E)), squares,
                                     qk_dim, to, packed_dim_stride);
    }
    for (; d < qk_dim; ++d) {
      for (std::size_t r = 0; r < rows; ++r)
        to[d * packed_dim_stride + r] =
            from[token_stride * static_cast<std::ptrdiff_t>(r) + static_cast<std::ptrdiff_t>(d)];
    }
    i += rows;
  }
}

}  // namespace rapt
