// Where the keys and values of a block lie.
#pragma once

#include <cstddef>

#include "call/attention_call.hpp"

namespace {

// Where a key lies in the block that begins with `first`: 0 before it, its length after it.
inline std::size_t within_block(std::size_t key, std::size_t first) {
  return key < first ? 0 : key - first < rapt::attention_block ? key - first : rapt::attention_block;
}
inline AttentionTile::Range within_block(AttentionTile::Range range, std::size_t first) {
  return {within_block(range.first, first), within_block(range.end, first)};
}

template <class T>
struct BlockAddresses {
  static constexpr std::size_t block = rapt::attention_block;

  const T *k[block];
  const T *v[block];
  const T *next_k[block];  // rows of the block after it, as memory
  std::ptrdiff_t k_step;   // from a dimension of a key to the next

  void find(const AttentionTile &tile, std::size_t first, std::size_t keys) {
    const rapt_attention_options &o = tile.options();
    constexpr std::size_t unit = rapt::attention_page_unit;
    k_step = o.packed_keys ? static_cast<std::ptrdiff_t>(block) : 1;
    const std::ptrdiff_t k_stride = o.packed_keys ? 1 : o.k_strides.token, v_stride = o.v_strides.token;
    for (std::size_t j = 0; j < keys; j += unit) {
      const T *key = tile.k<T>(first + j), *value = tile.v<T>(first + j);
      const std::size_t end = keys - j < unit ? keys : j + unit;
      for (std::size_t i = j; i < end; ++i) {
        k[i] = key + k_stride * static_cast<std::ptrdiff_t>(i - j);
        v[i] = value + v_stride * static_cast<std::ptrdiff_t>(i - j);
      }
    }
  }

  // `left` keys lie in the next block and after it.
  void find_next(const AttentionTile &tile, std::size_t first, std::size_t left) {
    const rapt_attention_options &o = tile.options();
    constexpr std::size_t unit = rapt::attention_page_unit;
    const std::ptrdiff_t stride = o.packed_keys ? static_cast<std::ptrdiff_t>(o.qk_dim) : o.k_strides.token;
    const T *key = nullptr;
    for (std::size_t j = 0; j < block; ++j) {
      if (j >= left) {
        next_k[j] = j < unit || left == 0 ? k[0] : next_k[0];
        continue;
      }
      if (j % unit == 0 && (j == 0 || !o.packed_keys)) key = tile.k<T>(first + j);
      next_k[j] = key + stride * static_cast<std::ptrdiff_t>(o.packed_keys ? j : j % unit);
    }
  }
};

}  // namespace
