// Describes a forward or backward call of attention, whose arguments have been checked.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"
#include "contract/cache_rows.hpp"
#include "contract/file_blocks.hpp"
#include "rapt/rapt.h"

namespace rapt {

// A call computes all of attention, or one of the two stages of split keys.
enum class AttentionStage { whole, partial, merge };

// Returns whether keys and values become numbers of f32 before they are multiplied: those in blocks of files, of 4
// bits, and those of two types.
constexpr bool dequantizes(const rapt_attention_options &o) {
  return o.v_type != o.kv_type || o.kv_type == RAPT_I4 || FileBlocks::of(o.kv_type);
}

// Returns whether keys or values of the type have scales in an array.
constexpr bool has_scales(rapt_type type) { return type == RAPT_I8 || type == RAPT_I4; }

// Returns the elements of a row of `dim` numbers: bytes where the type has blocks or 4 bits.
constexpr std::size_t row_length(rapt_type type, std::size_t dim) {
  std::size_t length = dim;
  with_cache_blocks(type, [&]<class Block>(Block) { length = dim / Block::inputs * Block::bytes; });
  return length;
}

// Returns the number of lists of keys of a sequence. Without lists, all its queries count as having one.
constexpr std::size_t lists_per_sequence(const rapt_attention_options &o) {
  const std::size_t n = o.queries_per_list;
  return n == 0 || n >= o.q_len ? o.q_len > 0 : (o.q_len - 1) / n + 1;
}

// Holds the arguments of the public functions, with every default filled in.
struct AttentionCall {
  const void *q = nullptr;
  const void *k = nullptr;  // where keys and values are dequantized, kernels get strides of both in bytes
  const void *v = nullptr;
  void *out = nullptr;       // null where partials are written
  void *partials = nullptr;  // null unless they are written or read
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;
  rapt_strides k_scale_strides{}, v_scale_strides{};  // where the type has scales in an array

  const rapt_attention_gradients *gradients = nullptr;  // null in forward calls; defaults are filled in
  AttentionStage stage = AttentionStage::whole;

  std::size_t q_heads_per_kv_head() const { return options.q_heads / options.kv_heads; }
  // All queries of a tile have one list of keys.
  std::size_t queries_per_list() const {
    const std::size_t n = options.queries_per_list;
    return n == 0 || n > options.q_len ? options.q_len : n;
  }
  std::size_t tiles_per_list() const {
    return (queries_per_list() * q_heads_per_kv_head() + attention_tile_rows - 1) / attention_tile_rows;
  }
  std::size_t tiles_per_sequence() const { return lists_per_sequence(options) * tiles_per_list(); }
  // A sequence without queries also has one tile number, because a backward call writes its keys' gradients.
  std::size_t tile_numbers_per_sequence() const {
    return tiles_per_sequence() > 0 ? tiles_per_sequence() : 1;
  }
  std::size_t tiles() const { return options.batch * options.kv_heads * tiles_per_sequence(); }
  // Returns the argument that belongs to the call's stage.
  template <class F>
  F *of_stage(F *whole, F *partial, F *merge) const {
    return stage == AttentionStage::whole ? whole : stage == AttentionStage::partial ? partial : merge;
  }
  std::size_t chunks() const { return (options.kv_len + attention_chunk - 1) / attention_chunk; }
};

// Returns the number of elements of a head that share a scale. The head has `dim` elements.
constexpr std::size_t scale_group_of(const rapt_attention_options &o, std::size_t dim) {
  return o.scale_group != 0 ? o.scale_group : dim;
}

}  // namespace rapt
