// Finds the addresses of a block's keys and values.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"

namespace {

// Returns a key's index in the block at key `first`: 0 for earlier keys, the block's length for later ones.
inline std::size_t within_block(std::size_t key, std::size_t first) {
  return key < first ? 0 : key - first < rapt::attention_block ? key - first : rapt::attention_block;
}
inline AttentionTile::Range within_block(AttentionTile::Range range, std::size_t first) {
  return {within_block(range.first, first), within_block(range.end, first)};
}

template <class E>
struct BlockAddresses {
  static constexpr std::size_t block = rapt::attention_block;

  const E *k[block];
  const E *v[block];
  const E *next_k[block];  // rows of the next block, for prefetching
  std::ptrdiff_t k_step;   // distance between two dimensions of a key

  // Finds the addresses of the block of `keys` keys that begins with key `first`. `left` more keys follow.
  void find(const AttentionTile &tile, std::size_t first, std::size_t keys, std::size_t left) {
    find_block(tile, first, keys);
    find_next(tile, first + block, left);
  }

 private:
  void find_block(const AttentionTile &tile, std::size_t first, std::size_t keys) {
    const rapt_attention_options &o = tile.options();
    constexpr std::size_t unit = rapt::attention_page_unit;
    k_step = o.packed_keys ? static_cast<std::ptrdiff_t>(rapt::packed_dim_stride) : 1;
    const std::ptrdiff_t k_stride = o.packed_keys ? 1 : o.k_strides.token, v_stride = o.v_strides.token;
    for (std::size_t j = 0; j < keys; j += unit) {
      const E *key = tile.k<E>(first + j), *value = tile.v<E>(first + j);
      const std::size_t end = keys - j < unit ? keys : j + unit;
      for (std::size_t i = j; i < end; ++i) {
        k[i] = key + k_stride * static_cast<std::ptrdiff_t>(i - j);
        v[i] = value + v_stride * static_cast<std::ptrdiff_t>(i - j);
      }
    }
  }
  void find_next(const AttentionTile &tile, std::size_t first, std::size_t left) {
    const rapt_attention_options &o = tile.options();
    constexpr std::size_t unit = rapt::attention_page_unit;
    const std::ptrdiff_t stride = o.packed_keys ? static_cast<std::ptrdiff_t>(o.qk_dim) : o.k_strides.token;
    const E *key = nullptr;
    for (std::size_t j = 0; j < block; ++j) {
      if (j >= left) {
        next_k[j] = j < unit || left == 0 ? k[0] : next_k[0];
        continue;
      }
      if (j % unit == 0 && (j == 0 || !o.packed_keys)) key = tile.k<E>(first + j);
      next_k[j] = key + stride * static_cast<std::ptrdiff_t>(o.packed_keys ? j : j % unit);
    }
  }
};

}  // namespace
