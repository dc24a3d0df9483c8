// The workspace of attention, in elements of the arithmetic type.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "call/attention_call.hpp"
#include "contract/attention.hpp"
#include "rapt/rapt.h"

namespace rapt {

inline constexpr std::size_t attention_workspace_alignment = 64;

// A block's rows, and room for the vector that the last one ends in.
constexpr std::size_t widened_rows_length(std::size_t dim) { return attention_block * dim + 16; }
constexpr std::size_t widened_block_length(std::size_t qk_dim, std::size_t v_dim) {
  return widened_rows_length(qk_dim) + widened_rows_length(v_dim);
}

// Keys and values of 8 bits: a tile's queries as 16-bit integers, whose dimensions end with a whole vector,
// and their steps; two outputs of whole vectors; and the scores of two blocks.
constexpr std::size_t padded_dim(std::size_t dim) { return (dim + 31) / 32 * 32; }
constexpr std::size_t integer_workspace_length(const rapt_attention_options &o) {
  const std::size_t groups = o.qk_dim / scale_group_of(o, o.qk_dim);
  return attention_tile_rows *
         (padded_dim(o.qk_dim) / 2 + groups + 2 * padded_dim(o.v_dim) + 2 * attention_block);
}

// How the level amx divides it, in bytes: keys and values of a chunk as AMX tiles, and their scales; sums of
// two blocks' scores, of one block's values; weights as two digits, twice; scores; weights; a chunk's
// outputs. And for each of the tiles that share a chunk its numbers, outputs and queries.
struct IntegerTilesLayout {
  static constexpr std::size_t most_tiles = 8, state_bytes = 10240, room_for_tiles = 448 * 1024;
  // A segment of dimensions has sums of its own, 8 KB for a block and 16 rows.
  static constexpr std::size_t most_segments = 8, tile_bytes = 1024, sums_bytes = 8 * tile_bytes;
  std::size_t qk_steps, v_tiles, k_groups, v_groups, segments, query_tiles;
  std::size_t keys, values, k_scales, v_scales, score_sums, value_sums, digits, scores, weights, out, states,
      bytes;
  std::size_t units_in_state, queries_in_state, bytes_of_state, count;

  constexpr explicit IntegerTilesLayout(const rapt_attention_options &o)
      : qk_steps((o.qk_dim + 63) / 64),
        v_tiles((o.v_dim + 15) / 16),
        k_groups(o.qk_dim / scale_group_of(o, o.qk_dim)),
        v_groups(o.v_dim / scale_group_of(o, o.v_dim)),
        segments(k_groups * ((scale_group_of(o, o.qk_dim) + 511) / 512)),
        query_tiles(k_groups * ((scale_group_of(o, o.qk_dim) + 63) / 64) * 2) {
    constexpr std::size_t row = attention_tile_rows * sizeof(float),
                          blocks = attention_chunk / attention_block;
    keys = 0;
    values = keys + attention_chunk * qk_steps * 64;
    k_scales = values + (blocks * v_tiles + 1) * tile_bytes;
    v_scales = k_scales + k_groups * attention_chunk * sizeof(float);
    score_sums = v_scales + v_groups * attention_chunk * sizeof(float);
    value_sums = score_sums + 2 * segments * sums_bytes;
    digits = value_sums + 2 * (v_tiles + 1) * tile_bytes;
    scores = digits + 2 * 2 * v_groups * tile_bytes;
    weights = scores + attention_block * row;
    out = weights + attention_block * row / 4;
    states = out + v_tiles * 16 * row;
    units_in_state = state_bytes + v_tiles * 16 * row;
    queries_in_state = units_in_state + k_groups * row;
    bytes_of_state = queries_in_state + attention_tile_rows / 16 * query_tiles * tile_bytes;
    count = room_for_tiles / bytes_of_state;
    if (count < 2) count = 2;
    if (count > most_tiles) count = most_tiles;
    bytes = states + count * bytes_of_state;
  }
  constexpr bool suits() const { return segments <= most_segments && v_groups <= most_segments; }
};
constexpr std::size_t bytes_workspace_length(const rapt_attention_options &o) {
  const IntegerTilesLayout layout(o);
  const std::size_t length = integer_workspace_length(o), by_tiles = layout.bytes / sizeof(float);
  return layout.suits() && by_tiles > length ? by_tiles : length;
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
  if (o.kv_type == RAPT_I8) return bytes_workspace_length(o);
  const bool widens = o.kv_type == RAPT_F16 || o.kv_type == RAPT_BF16;
  const std::size_t length = attention_tile_rows * (o.qk_dim + 2 * o.v_dim + 2 * attention_block) +
                             (widens ? widened_block_length(o.qk_dim, o.v_dim) : 0);
  if (o.arithmetic != RAPT_ARITHMETIC_BF16) return length;
  const std::size_t by_tiles = TileGroupLayout(o).bytes / sizeof(float);
  return by_tiles < length ? length : by_tiles;
}

// A tile's queries and outputs with their gradients; scores, products of values and the softcap's slopes of a
// block; and room for the keys of a panel past the block.
constexpr std::size_t gradients_length(const rapt_attention_options &o) {
  return attention_tile_rows * (2 * o.qk_dim + 2 * o.v_dim + 3 * attention_block + 8);
}
constexpr bool has_halves(const rapt_attention_options &o) {
  for (const rapt_type type : {o.q_type, o.kv_type, o.out_type}) {
    if (type == RAPT_F16 || type == RAPT_BF16) return true;
  }
  return false;
}
// With elements of 16 bits also: a tile's queries and gradients of outputs, and a block's keys and values,
// widened; and dk and dv of a head.
constexpr std::size_t backward_workspace_length(const rapt_attention_options &o) {
  const std::size_t of_halves = 2 * widened_block_length(o.qk_dim, o.v_dim) + o.kv_len * (o.qk_dim + o.v_dim);
  return gradients_length(o) + (has_halves(o) ? of_halves : 0);
}

// Where these lie.
template <class A>
struct WidenedForGradients {
  WidenedForGradients(const rapt_attention_options &o, A *workspace)
      : q(workspace + gradients_length(o)),
        dout(q + widened_rows_length(o.qk_dim)),
        k(dout + widened_rows_length(o.v_dim)),
        v(k + widened_rows_length(o.qk_dim)),
        dk(v + widened_rows_length(o.v_dim)),
        dv(dk + o.kv_len * o.qk_dim) {}
  A *q, *dout, *k, *v, *dk, *dv;
};

}  // namespace rapt
