// Computes the sizes of attention's workspace, in elements of the arithmetic type.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "call/attention_call.hpp"
#include "contract/attention.hpp"
#include "contract/types.hpp"
#include "rapt/rapt.h"

namespace rapt {

// Returns the elements for the widened rows of a block. The last row is stored as whole vectors, which may
// need 16 more.
constexpr std::size_t widened_rows_length(std::size_t dim) { return attention_block * dim + 16; }
constexpr std::size_t widened_block_length(std::size_t qk_dim, std::size_t v_dim) {
  return widened_rows_length(qk_dim) + widened_rows_length(v_dim);
}

// With int8 keys and values, the workspace holds a tile's queries as 16-bit integers, padded to whole
// vectors, and their steps (contract/int8_attention.hpp). It also holds two outputs of whole vectors, and the
// scores of two blocks.
constexpr std::size_t padded_dim(std::size_t dim) { return (dim + 31) / 32 * 32; }
constexpr std::size_t integer_workspace_length(const rapt_attention_options &o) {
  const std::size_t groups = o.qk_dim / scale_group_of(o, o.qk_dim);
  return attention_tile_rows *
         (padded_dim(o.qk_dim) / 2 + groups + 2 * padded_dim(o.v_dim) + 2 * attention_block);
}

// The level amx computes several tiles of a head together, as a batch. Returns the number of tiles in a
// batch: as many as fit in 448 KiB, but at least 2 and at most 8.
constexpr std::size_t tiles_of_batch(std::size_t bytes_of_tile) {
  constexpr std::size_t room = 448 * 1024, most = 8;
  const std::size_t count = room / bytes_of_tile;
  return count < 2 ? 2 : count < most ? count : most;
}

// Counts the bytes that the level amx puts into the workspace (isa/amx/layout.hpp says where). The memory
// that the tiles of a batch share comes first, then the memory of each tile. The workspace has the same size
// on all levels.
struct AmxSizes {
  static constexpr std::size_t amx_tile = 1024, row = attention_tile_rows * sizeof(float),
                               numbers_of_tile = 10240;
};

// An int8 batch holds the keys and values of a chunk as AMX tiles, and their scales. It holds sums of two
// blocks' scores (8 KB per segment of dimensions and 16 rows) and of one block's values. It also holds two
// sets of weights as 8-bit digits, and scores, weights and outputs.
struct Int8BatchSizes : AmxSizes {
  static constexpr std::size_t most_segments = 8, sums_of_segment = 8 * amx_tile;
  std::size_t qk_steps, v_tiles, k_groups, v_groups, segments, query_tiles;
  std::size_t keys, values, k_scales, v_scales, score_sums, value_sums, digits, scores, weights, out;
  std::size_t total_values, query_steps, queries;

  constexpr explicit Int8BatchSizes(const rapt_attention_options &o)
      : qk_steps((o.qk_dim + 63) / 64),
        v_tiles((o.v_dim + 15) / 16),
        k_groups(o.qk_dim / scale_group_of(o, o.qk_dim)),
        v_groups(o.v_dim / scale_group_of(o, o.v_dim)),
        segments(k_groups * ((scale_group_of(o, o.qk_dim) + 511) / 512)),
        query_tiles(k_groups * ((scale_group_of(o, o.qk_dim) + 63) / 64) * 2),
        keys(attention_chunk * qk_steps * 64),
        values((attention_chunk / attention_block * v_tiles + 1) * amx_tile),
        k_scales(k_groups * attention_chunk * sizeof(float)),
        v_scales(v_groups * attention_chunk * sizeof(float)),
        score_sums(2 * segments * sums_of_segment),
        value_sums(2 * (v_tiles + 1) * amx_tile),
        digits(2 * 2 * v_groups * amx_tile),
        scores(attention_block * row),
        weights(attention_block * row / 4),
        out(v_tiles * 16 * row),
        total_values(v_tiles * 16 * row),
        query_steps(k_groups * row),
        queries(attention_tile_rows / 16 * query_tiles * amx_tile) {}

  // Returns whether there is room for the sums of all segments of dimensions. Otherwise the call is computed
  // without AMX tiles.
  constexpr bool fit() const { return segments <= most_segments && v_groups <= most_segments; }
  constexpr std::size_t of_tile() const { return numbers_of_tile + total_values + query_steps + queries; }
  constexpr std::size_t shared() const {
    return keys + values + k_scales + v_scales + score_sums + value_sums + digits + scores + weights + out;
  }
};

// A batch in bf16 arithmetic holds the keys and values of a chunk as AMX tiles of 16 x 32 elements. It also
// holds a chunk's weights for 32 rows, a row of ones, scores, and a chunk's outputs and sums.
struct Bf16BatchSizes : AmxSizes {
  std::size_t qk_groups, v_groups;  // groups of 32 dimensions; groups of 16 dimensions, an even number
  std::size_t keys, values, weights, ones, scores, out;
  std::size_t total_values, queries;

  constexpr explicit Bf16BatchSizes(const rapt_attention_options &o)
      : qk_groups((o.qk_dim + 31) / 32),
        v_groups((o.v_dim + 31) / 32 * 2),
        keys(attention_chunk * qk_groups * 64),
        values(attention_chunk * v_groups * 32),
        weights(256 * attention_tile_rows * 2),
        ones(64),
        scores(3 * attention_block * row),
        out((v_groups + 1) * 16 * row),
        total_values(v_groups * 16 * row),
        queries(attention_tile_rows * qk_groups * 64) {}

  static constexpr bool fit() { return true; }
  constexpr std::size_t of_tile() const { return numbers_of_tile + total_values + queries; }
  constexpr std::size_t shared() const { return keys + values + weights + ones + scores + out; }
};

template <class Sizes>
constexpr std::size_t batch_workspace_length(const Sizes &sizes) {
  return (sizes.shared() + tiles_of_batch(sizes.of_tile()) * sizes.of_tile()) / sizeof(float);
}

constexpr std::size_t int8_workspace_length(const rapt_attention_options &o) {
  const Int8BatchSizes sizes(o);
  const std::size_t length = integer_workspace_length(o), of_batch = batch_workspace_length(sizes);
  return sizes.fit() && of_batch > length ? of_batch : length;
}

// A tile needs room for its queries and two outputs, and for the scores and exclusions of a block. With keys
// and values of 16 bits, it also needs room for a block of them, widened.
constexpr std::size_t attention_workspace_length(const rapt_attention_options &o) {
  if (o.kv_type == RAPT_I8) return int8_workspace_length(o);
  const bool widens = !dequantizes(o) && (o.kv_type == RAPT_F16 || o.kv_type == RAPT_BF16);
  const std::size_t length = attention_tile_rows * (o.qk_dim + 2 * o.v_dim + 2 * attention_block) +
                             (widens ? widened_block_length(o.qk_dim, o.v_dim) : 0);
  if (o.arithmetic != RAPT_ARITHMETIC_BF16) return length;
  const std::size_t of_batch = batch_workspace_length(Bf16BatchSizes(o));
  return of_batch < length ? length : of_batch;
}

// Keys and values that may lie anywhere, in lists or small pages, are copied to rows of a block that follow each other.
// `Gathered` says where: a row of zeros for missing keys, the keys and the values. Rows are copied as whole lines.
constexpr bool is_scattered(const rapt_attention_options &o) {
  return o.key_lists != nullptr || o.page_size % attention_page_unit != 0;
}
template <class E>
struct Gathered {
  E *zeros, *keys, *values;

  Gathered(const rapt_attention_options &o, void *memory)
      : zeros(static_cast<E *>(memory)),
        keys(zeros + padded(o.qk_dim > o.v_dim ? o.qk_dim : o.v_dim)),
        values(keys + padded(attention_block * o.qk_dim)) {}

  static constexpr std::size_t length(const rapt_attention_options &o) {
    return padded(o.qk_dim > o.v_dim ? o.qk_dim : o.v_dim) + padded(attention_block * o.qk_dim) +
           padded(attention_block * o.v_dim);
  }

 private:
  static constexpr std::size_t padded(std::size_t elements) {
    constexpr std::size_t line = 64 / sizeof(E);
    return (elements + 2 * line - 1) / line * line;
  }
};
// Keys and values that are dequantized have a block of numbers each: keys as packed ones have them, values row by row.
// The distance of rows is no multiple of 128 bytes, so that columns of them do not share sets of L1.
struct Dequantized {
  float *keys, *values;

  Dequantized(const rapt_attention_options &o, void *memory)
      : keys(static_cast<float *>(memory)), values(keys + attention_block * o.qk_dim) {}

  static constexpr std::size_t pitch(std::size_t v_dim) { return (v_dim + 31) / 32 * 32 + 16; }
  static constexpr std::size_t length(const rapt_attention_options &o) {
    return attention_block * (o.qk_dim + pitch(o.v_dim));
  }
};
// Elements of 8 and 16 bits get the room of floats.
constexpr std::size_t forward_workspace_length(const rapt_attention_options &o) {
  if (dequantizes(o)) return attention_workspace_length(o) + Dequantized::length(o);
  const std::size_t gathered =
      o.kv_type == RAPT_F64 ? Gathered<double>::length(o) : Gathered<float>::length(o);
  return attention_workspace_length(o) + (is_scattered(o) ? gathered : 0);
}
// Returns the memory for gathered or dequantized rows; null where rows are read in place. The gathered row of zeros is
// cleared.
template <class E>
void *gathered_memory(const rapt_attention_options &o, void *workspace) {
  if (!is_scattered(o) && !dequantizes(o)) return nullptr;
  constexpr std::size_t number = sizeof(Arithmetic<E>);
  void *const memory = static_cast<char *>(workspace) + attention_workspace_length(o) * number;
  if (dequantizes(o)) return memory;
  const Gathered<E> gathered(o, memory);
  for (E *zero = gathered.zeros; zero < gathered.keys; ++zero) *zero = E{};
  return memory;
}

// A tile of a backward call needs room for queries, outputs and their gradients. It also needs room for a
// block's scores, products of values and softcap slopes. A panel of up to 8 keys may end past the block, so 8
// more keys have room.
constexpr std::size_t gradients_length(const rapt_attention_options &o) {
  return attention_tile_rows * (2 * o.qk_dim + 2 * o.v_dim + 3 * attention_block + 8);
}
constexpr bool has_halves(const rapt_attention_options &o) {
  for (const rapt_type type : {o.q_type, o.kv_type, o.out_type}) {
    if (type == RAPT_F16 || type == RAPT_BF16) return true;
  }
  return false;
}
// With elements of 16 bits, a backward call also needs widened copies of a tile's queries and gradients of
// outputs, and of a block's keys and values. It also needs room for dk and dv of a head.
constexpr std::size_t backward_workspace_length(const rapt_attention_options &o) {
  const std::size_t of_halves = 2 * widened_block_length(o.qk_dim, o.v_dim) + o.kv_len * (o.qk_dim + o.v_dim);
  return gradients_length(o) + (has_halves(o) ? of_halves : 0);
}

// Holds the addresses of the widened copies, and of dk and dv.
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
