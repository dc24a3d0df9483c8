// Defines the layout of packed keys: in a block of 64 keys, the 64 elements of one dimension are contiguous.
#pragma once

#include <cstddef>

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
  for (std::size_t i = 0; i < tokens; ++i) {
    E *to = packed + packed_key_offset(first + i, qk_dim);
    const E *from = k + token_stride * static_cast<std::ptrdiff_t>(i);
    for (std::size_t d = 0; d < qk_dim; ++d) to[d * packed_dim_stride] = from[d];
  }
}

}  // namespace rapt
