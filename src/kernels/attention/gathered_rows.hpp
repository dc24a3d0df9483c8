// Copies keys or values that may lie anywhere in a cache to rows that follow each other, where products read them.
//
// Products read 16 rows at a time at a constant distance. 16 keys of a list that follow each other in the cache, and
// those of a large page, are read in place. Others are copied just before they are read, unless products read them by
// their addresses (run_list.hpp, block.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "call/attention_tile.hpp"
#include "call/attention_workspace.hpp"
#include "kernels/vector/inner.hpp"
#include "kernels/vector/simd.hpp"

namespace {

// Describes up to 16 rows of keys or values at a constant distance.
template <class E>
struct RowsOfUnit {
  const E *first;
  std::ptrdiff_t stride;
};

// Copies a row of `bytes` bytes.
RAPT_INNER inline void copy_row(const void *from, std::size_t bytes, void *to) {
  using S = simd<float>;
  constexpr std::size_t size = S::width * sizeof(float);
  const char *source = static_cast<const char *>(from);
  char *target = static_cast<char *>(to);
  for (; bytes >= size; bytes -= size, source += size, target += size) {
    S::store(reinterpret_cast<float *>(target), S::load(reinterpret_cast<const float *>(source)));
  }
  if (bytes > 0) std::memcpy(target, source, bytes);
}

// Copies the keys or values [first, first + count) to `rows`, one after the other, with zeros for missing ones.
// Prefetches rows of the next block meanwhile: no hardware prefetcher can follow a list. address(key) returns a row of
// `dim` elements.
template <class E, class Address>
RAPT_INNER inline void gather_rows(const AttentionTile &tile, std::size_t first, std::size_t count,
                                   std::size_t dim, Address address, E *rows) {
  constexpr std::size_t line = 64, block = rapt::attention_block;
  const std::size_t bytes = dim * sizeof(E), left = tile.kv_len() - first;
  const std::size_t fetched = left <= block ? 0 : left - block < count ? left - block : count;
  for (std::size_t i = 0; i < count; ++i, rows += dim) {
    if (i < fetched && !tile.is_missing(first + i + block)) {
      const auto at = reinterpret_cast<std::uintptr_t>(address(first + i + block));
      for (std::size_t b = 0; b < bytes; b += line)
        __builtin_prefetch(reinterpret_cast<const void *>(at + b), 0, 2);
    }
    if (tile.is_missing(first + i)) {
      std::memset(static_cast<void *>(rows), 0, bytes);
    } else {
      copy_row(address(first + i), bytes, rows);
    }
  }
}

// Gathers keys or values of a list, whose token 0 is at `token0`, or of small pages.
template <class E, class Address>
[[gnu::noinline, gnu::flatten]] const E *gather_rows(const AttentionTile &tile, std::size_t first,
                                                     std::size_t count, std::size_t dim, const E *token0,
                                                     std::ptrdiff_t stride, Address address, E *rows) {
  if (const std::int32_t *const list = tile.list()) {
    gather_rows(
        tile, first, count, dim, [&](std::size_t key) RAPT_INNER { return token0 + stride * list[key]; },
        rows);
  } else {
    gather_rows(tile, first, count, dim, address, rows);
  }
  return rows;
}

// Gather the keys or values [first, first + count) of a block to their places, and return the address of the first.
template <class E>
const E *gather_keys(const AttentionTile &tile, std::size_t first, std::size_t count) {
  const rapt_attention_options &o = tile.options();
  E *const to = rapt::Gathered<E>(o, tile.gathered()).keys + first % rapt::attention_block * o.qk_dim;
  return gather_rows(
      tile, first, count, o.qk_dim, tile.k_of_token<E>(0), o.k_strides.token,
      [&](std::size_t key) { return tile.k<E>(key); }, to);
}
template <class E>
const E *gather_values(const AttentionTile &tile, std::size_t first, std::size_t count) {
  const rapt_attention_options &o = tile.options();
  E *const to = rapt::Gathered<E>(o, tile.gathered()).values + first % rapt::attention_block * o.v_dim;
  return gather_rows(
      tile, first, count, o.v_dim, tile.v_of_token<E>(0), o.v_strides.token,
      [&](std::size_t key) { return tile.v<E>(key); }, to);
}

// Returns where products read the keys [first, first + count), at most 16 from a multiple of 16 on.
template <class E>
RowsOfUnit<E> key_rows(const AttentionTile &tile, std::size_t first, std::size_t count) {
  const rapt_attention_options &o = tile.options();
  if (!tile.is_scattered() || tile.lie_together(first, count)) return {tile.k<E>(first), o.k_strides.token};
  return {gather_keys<E>(tile, first, count), static_cast<std::ptrdiff_t>(o.qk_dim)};
}

// Finds `units` times 16 values, of which `count` exist. unit[i] gets the address of value 16 i, unless there is none.
// Returns the distance of values, which all units share.
template <class E, std::size_t units>
std::ptrdiff_t value_units(const AttentionTile &tile, std::size_t first, std::size_t count,
                           const E *(&unit)[units]) {
  constexpr std::size_t rows = rapt::attention_page_unit;
  const rapt_attention_options &o = tile.options();
  bool together = true;
  for (std::size_t i = 0; i < count && tile.is_scattered(); i += rows) {
    together = together && tile.lie_together(first + i, count - i < rows ? count - i : rows);
  }
  const E *const gathered = together ? nullptr : gather_values<E>(tile, first, count);
  for (std::size_t i = 0; rows * i < count && i < units; ++i) {
    unit[i] = together ? tile.v<E>(first + rows * i) : gathered + rows * i * o.v_dim;
  }
  return together ? o.v_strides.token : static_cast<std::ptrdiff_t>(o.v_dim);
}

}  // namespace
