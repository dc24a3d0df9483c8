// Finds a block's keys and values where products read them.
#pragma once

#include <cstddef>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "contract/types.hpp"
#include "kernels/vector/widen.hpp"

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
  using Element = E;
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
    const std::size_t unit = tile.is_scattered() ? 1 : rapt::attention_page_unit;
    k_step = o.packed_keys ? static_cast<std::ptrdiff_t>(rapt::packed_dim_stride) : 1;
    const std::ptrdiff_t k_stride = o.packed_keys ? 1 : o.k_strides.token, v_stride = o.v_strides.token;
    for (std::size_t j = 0; j < keys; j += unit) {
      const bool is_missing = tile.is_missing(first + j);
      const E *const zeros = is_missing ? rapt::Gathered<E>(o, tile.gathered()).zeros : nullptr;
      const E *key = is_missing ? zeros : tile.k<E>(first + j),
              *value = is_missing ? zeros : tile.v<E>(first + j);
      const std::size_t end = keys - j < unit ? keys : j + unit;
      for (std::size_t i = j; i < end; ++i) {
        k[i] = key + k_stride * static_cast<std::ptrdiff_t>(i - j);
        v[i] = value + v_stride * static_cast<std::ptrdiff_t>(i - j);
      }
    }
  }
  void find_next(const AttentionTile &tile, std::size_t first, std::size_t left) {
    const rapt_attention_options &o = tile.options();
    const std::size_t unit = tile.is_scattered() ? 1 : rapt::attention_page_unit;
    const std::ptrdiff_t stride = o.packed_keys ? static_cast<std::ptrdiff_t>(o.qk_dim) : o.k_strides.token;
    const E *key = nullptr;
    for (std::size_t j = 0; j < block; ++j) {
      if (j >= left || tile.is_missing(first + j)) {
        next_k[j] = j == 0 || left == 0 ? k[0] : next_k[0];
        continue;
      }
      if (j % unit == 0 && (j == 0 || !o.packed_keys)) key = tile.k<E>(first + j);
      next_k[j] = key + stride * static_cast<std::ptrdiff_t>(o.packed_keys ? j : j % unit);
    }
  }
};

// Products read keys and values from one of these places:
//
//   StoredBlock   the caller's memory, plain or packed
//   WidenedBlock  a copy in f32 of elements of 16 bits, which all rows of a tile share
template <class E>
struct StoredBlock : BlockAddresses<E> {
  static constexpr bool is_copy = false;
  static std::size_t length(const rapt_attention_options &) { return 0; }
  StoredBlock(const rapt_attention_options &, const rapt::Arithmetic<E> *) {}
};

template <Half E>
class WidenedBlock : public BlockAddresses<float> {
 public:
  static constexpr bool is_copy = true;
  static std::size_t length(const rapt_attention_options &o) {
    return rapt::widened_block_length(o.qk_dim, o.v_dim);
  }
  WidenedBlock(const rapt_attention_options &o, float *memory)
      : keys_(memory), values_(memory + rapt::widened_rows_length(o.qk_dim)) {}

  void find(const AttentionTile &tile, std::size_t first, std::size_t keys, std::size_t left) {
    const rapt_attention_options &o = tile.options();
    narrow_.find(tile, first, keys, left);
    k_step = narrow_.k_step;
    if (o.packed_keys) widen(narrow_.k[0], rapt::packed_dim_stride * o.qk_dim, keys_);
    for (std::size_t j = 0; j < keys; ++j) {
      float *const key = o.packed_keys ? keys_ + j : keys_ + j * o.qk_dim, *const value =
                                                                               values_ + j * o.v_dim;
      if (!o.packed_keys) widen(narrow_.k[j], o.qk_dim, key);
      widen(narrow_.v[j], o.v_dim, value);
      k[j] = key;
      v[j] = value;
    }
  }

 private:
  float *keys_, *values_;
  BlockAddresses<E> narrow_;
};

}  // namespace
