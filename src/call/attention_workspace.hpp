// The workspace of attention, in elements of the arithmetic type.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "rapt/rapt.h"

namespace rapt {

inline constexpr std::size_t attention_workspace_alignment = 64;

// A block's rows, and room for the vector that the last one ends in.
constexpr std::size_t widened_rows_length(std::size_t dim) { return attention_block * dim + 16; }
constexpr std::size_t widened_block_length(std::size_t qk_dim, std::size_t v_dim) {
  return widened_rows_length(qk_dim) + widened_rows_length(v_dim);
}

// How the level amx divides the workspace of bf16 arithmetic, in bytes: a chunk's keys and values as AMX
// tiles of 16 x 32 elements, scores of three blocks, weights of 256 keys, a chunk's outputs and sums. And for
// each of the tiles that share a chunk its numbers, outputs and queries. All levels have the same workspace.
struct TileGroupLayout {
  static constexpr std::size_t most_tiles = 8, state_bytes = 10240, room_for_tiles = 448 * 1024;
  std::size_t qk_groups, v_groups;  // of 32 and of 16 dimensions, these even
  std::size_t keys, values, weights, ones, scores, out, tiles, bytes;
  std::size_t queries_in_tile, tile_bytes, count;

  constexpr explicit TileGroupLayout(const rapt_attention_options &o)
      : qk_groups((o.qk_dim + 31) / 32), v_groups((o.v_dim + 31) / 32 * 2) {
    constexpr std::size_t row = 64 * sizeof(float);
    keys = 0;
    values = keys + attention_chunk * qk_groups * 64;
    weights = values + attention_chunk * v_groups * 32;
    ones = weights + 256 * attention_tile_rows * 2;
    scores = ones + 64;
    out = scores + 3 * attention_block * row;
    tiles = out + (v_groups + 1) * 16 * row;
    queries_in_tile = state_bytes + v_groups * 16 * row;
    tile_bytes = queries_in_tile + attention_tile_rows * qk_groups * 64;
    count = room_for_tiles / tile_bytes;
    if (count < 2) count = 2;
    if (count > most_tiles) count = most_tiles;
    bytes = tiles + count * tile_bytes;
  }
};

// A tile's queries and two of its outputs, by dimension; scores and exclusions of a block; and keys and
// values of 16 bits, widened.
constexpr std::size_t attention_workspace_length(const rapt_attention_options &o) {
  const bool widens = o.kv_type == RAPT_F16 || o.kv_type == RAPT_BF16;
  const std::size_t length = attention_tile_rows * (o.qk_dim + 2 * o.v_dim + 2 * attention_block) +
                             (widens ? widened_block_length(o.qk_dim, o.v_dim) : 0);
  if (o.arithmetic != RAPT_ARITHMETIC_BF16) return length;
  const std::size_t by_tiles = TileGroupLayout(o).bytes / sizeof(float);
  return by_tiles < length ? length : by_tiles;
}

// A tile's queries and outputs with their gradients; scores, products of values and the softcap's slopes of a
// block; and room for the keys of a panel past the block.
constexpr std::size_t backward_workspace_length(const rapt_attention_options &o) {
  return attention_tile_rows * (2 * o.qk_dim + 2 * o.v_dim + 3 * attention_block + 8);
}

}  // namespace rapt
