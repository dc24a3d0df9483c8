// Fills in the defaults of attention's options, for forward and backward calls. Checks the numbers and the
// arrays of lengths.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "api/numbers.hpp"
#include "api/read_options.hpp"
#include "api/strides.hpp"
#include "call/attention_call.hpp"

namespace rapt {
namespace {

// Returns whether the shape fits in memory. If it does, the sizes of a few such tensors of 8-byte elements
// can be added without overflow.
inline bool shape_fits(const rapt_attention_options &o) {
  std::size_t elements = 16;
  const std::size_t dim = o.qk_dim > o.v_dim ? o.qk_dim : o.v_dim;
  const std::size_t keys = o.kv_len > o.cache_len ? o.kv_len : o.cache_len;
  const std::size_t len = o.q_len > keys ? o.q_len : keys;
  for (const std::size_t count : {o.batch, o.q_heads, len, dim}) {
    if (__builtin_mul_overflow(elements, count > 0 ? count : 1, &elements)) return false;
  }
  return elements <= std::size_t{PTRDIFF_MAX} / 64;
}

inline rapt_status resolve_shape(rapt_attention_options &o) {
  if (o.batch == 0 || o.q_heads == 0) return RAPT_BAD_SHAPE;
  if (o.kv_heads == 0) o.kv_heads = o.q_heads;
  if (o.v_dim == 0) o.v_dim = o.qk_dim;
  if (o.q_heads % o.kv_heads != 0) return RAPT_BAD_HEADS;
  constexpr std::size_t largest_dim = std::size_t{1} << 20;
  if (o.qk_dim == 0 || o.qk_dim > largest_dim || o.v_dim > largest_dim) return RAPT_BAD_DIM;
  return shape_fits(o) ? RAPT_OK : RAPT_BAD_SIZE;
}

// Only keys and values of RAPT_I8 and RAPT_I4 have scales.
inline rapt_status check_kv_scales(const rapt_attention_options &o) {
  const std::size_t group = o.scale_group;
  const bool has_k_scales = has_scales(o.kv_type), has_v_scales = has_scales(o.v_type);
  if ((o.k_scales && !has_k_scales) || (o.v_scales && !has_v_scales)) return RAPT_BAD_KV_SCALES;
  if (group == 0) return RAPT_OK;
  const bool is_group = group == 32 || group == 64 || group == 128;
  const bool has_groups = (has_k_scales || has_v_scales) && (!has_k_scales || o.qk_dim % group == 0) &&
                          (!has_v_scales || o.v_dim % group == 0);
  return is_group && has_groups ? RAPT_OK : RAPT_BAD_KV_SCALES;
}

// Returns how many numbers lie together in keys or values of the type.
constexpr std::size_t numbers_together(rapt_type type) {
  std::size_t numbers = 1;
  with_cache_blocks(type, [&]<class Block>(Block) { numbers = Block::inputs; });
  return numbers;
}

inline rapt_status resolve_types(rapt_attention_options &o) {
  // Each type is read as an int, because reading an unknown number as a rapt_type would be undefined
  // behaviour.
  int types[4];
  static_assert(sizeof o.q_type == sizeof(int));
  std::memcpy(&types[0], &o.q_type, sizeof(int));
  std::memcpy(&types[1], &o.kv_type, sizeof(int));
  std::memcpy(&types[2], &o.out_type, sizeof(int));
  std::memcpy(&types[3], &o.v_type, sizeof(int));
  const int &of_keys = types[1], &of_values = types[3];
  if (types[0] == RAPT_TYPE_DEFAULT) types[0] = RAPT_F32;
  for (int &type : types) {
    const bool is_cache = &type == &of_keys || &type == &of_values;
    if (type == RAPT_TYPE_DEFAULT) type = &type == &of_values ? of_keys : types[0];
    const bool is_element = type == RAPT_F32 || type == RAPT_F64 || type == RAPT_F16 || type == RAPT_BF16 ||
                            (is_cache && (has_scales(static_cast<rapt_type>(type)) ||
                                          FileBlocks::of(static_cast<rapt_type>(type))));
    if (!is_element || (type == RAPT_F64) != (types[0] == RAPT_F64)) return RAPT_BAD_TYPE;
  }
  if (of_keys != of_values && (of_keys == RAPT_I8 || of_values == RAPT_I8)) return RAPT_BAD_TYPE;
  o.q_type = static_cast<rapt_type>(types[0]);
  o.kv_type = static_cast<rapt_type>(types[1]);
  o.out_type = static_cast<rapt_type>(types[2]);
  o.v_type = static_cast<rapt_type>(types[3]);
  if (o.qk_dim % numbers_together(o.kv_type) != 0 || o.v_dim % numbers_together(o.v_type) != 0)
    return RAPT_BAD_DIM;
  if (o.packed_keys && dequantizes(o)) return RAPT_BAD_PACKED_KEYS;
  const bool is_bf16 = o.q_type == RAPT_BF16 && o.kv_type == RAPT_BF16 && o.v_type == RAPT_BF16;
  if (o.arithmetic == RAPT_ARITHMETIC_DEFAULT && o.q_type != RAPT_F64) {
    o.arithmetic = is_bf16 ? RAPT_ARITHMETIC_BF16 : RAPT_ARITHMETIC_F32;
  }
  const bool is_known = o.q_type == RAPT_F64 ? o.arithmetic == RAPT_ARITHMETIC_DEFAULT
                                             : o.arithmetic == RAPT_ARITHMETIC_F32 ||
                                                   (o.arithmetic == RAPT_ARITHMETIC_BF16 && is_bf16);
  if (!is_known) return RAPT_BAD_ARITHMETIC;
  return check_kv_scales(o);
}

// Returns the type of the scores' arrays. Types must have been resolved.
inline rapt_type number_type(const rapt_attention_options &o) {
  return o.q_type == RAPT_F64 ? RAPT_F64 : RAPT_F32;
}

inline rapt_status resolve_bias_type(rapt_attention_options &o) {
  int type;  // see resolve_types()
  std::memcpy(&type, &o.bias_type, sizeof type);
  const rapt_type number = number_type(o);
  if (type != RAPT_TYPE_DEFAULT && type != number &&
      (number == RAPT_F64 || (type != RAPT_F16 && type != RAPT_BF16)))
    return RAPT_BAD_TYPE;
  if (!o.bias && (type != RAPT_TYPE_DEFAULT || o.bias_slopes)) return RAPT_BAD_BIAS;
  if (type == RAPT_TYPE_DEFAULT) o.bias_type = number;
  return RAPT_OK;
}

inline rapt_status resolve_scores(rapt_attention_options &o) {
  const double default_scale = 1 / std::sqrt(static_cast<double>(o.qk_dim));
  const auto check = o.q_type == RAPT_F64 ? check_scores<double> : check_scores<float>;
  const rapt_status status = check(o.scale, default_scale, o.softcap);
  if (o.scale == 0) o.scale = default_scale;
  return status;
}

// Resolves the strides of bias, mask and query scales. These tensors have a batch dimension even for packed
// sequences.
inline rapt_status resolve_own_strides(rapt_attention_options &o) {
  const auto resolve = [&](const void *data, rapt_strides &strides, std::size_t row, rapt_status bad) {
    if (!data) return all_zero(strides) ? RAPT_OK : bad;
    return resolve_strides(strides, {o.batch, o.q_heads, o.q_len, row}, MayRepeat::yes, bad);
  };
  rapt_status status = resolve(o.bias, o.bias_strides, o.kv_len, RAPT_BAD_BIAS_STRIDES);
  if (status == RAPT_OK) status = resolve(o.mask, o.mask_strides, o.kv_len, RAPT_BAD_MASK_STRIDES);
  if (status == RAPT_OK) status = resolve(o.query_scales, o.query_scale_strides, 1, RAPT_BAD_QUERY_SCALES);
  return status;
}

inline rapt_status resolve_pages(rapt_attention_options &o) {
  if (o.kv_starts && o.kv_offsets) return RAPT_BAD_KV_STARTS;
  if (o.q_starts && o.q_offsets) return RAPT_BAD_Q_STARTS;
  if (o.packed_keys && o.kv_offsets) return RAPT_BAD_PACKED_KEYS;
  if (!o.block_table) {
    if (o.block_table_stride != 0) return RAPT_BAD_BLOCK_TABLE;
    return o.page_size == 0 ? RAPT_OK : RAPT_BAD_PAGE_SIZE;
  }
  if (o.kv_offsets) return RAPT_BAD_BLOCK_TABLE;
  if (o.page_size == 0) return RAPT_BAD_PAGE_SIZE;
  if (o.packed_keys && o.page_size % attention_block != 0) return RAPT_BAD_PACKED_KEYS;
  if (o.block_table_stride == 0) {
    o.block_table_stride = o.kv_len / o.page_size + (o.kv_len % o.page_size != 0);
  }
  std::size_t pages, bytes;
  if (__builtin_mul_overflow(o.batch, o.block_table_stride, &pages) ||
      __builtin_mul_overflow(pages, sizeof(std::int32_t), &bytes) || bytes > std::size_t{PTRDIFF_MAX}) {
    return RAPT_BAD_SIZE;
  }
  return RAPT_OK;
}

inline rapt_status resolve_lists(rapt_attention_options &o) {
  const bool by_query = o.queries_per_list != 0 || o.key_list_lengths;
  if (!o.key_lists) {
    if (!all_zero(o.key_list_strides)) return RAPT_BAD_KEY_LIST_STRIDES;
    if (o.queries_per_list != 0) return RAPT_BAD_QUERIES_PER_LIST;
    if (o.key_list_lengths) return RAPT_BAD_KEY_LIST_LENGTHS;
    if (!all_zero(o.key_list_length_strides)) return RAPT_BAD_KEY_LIST_STRIDES;
    return o.cache_len == 0 ? RAPT_OK : RAPT_BAD_CACHE_LEN;
  }
  if (o.kv_offsets || o.kv_starts || o.block_table || o.packed_keys) return RAPT_BAD_KEY_LISTS;
  if (o.key_list_lengths && o.kv_lengths) return RAPT_BAD_KEY_LIST_LENGTHS;
  const bool has_positions = o.causal != RAPT_CAUSAL_NONE || o.window_left != 0 || o.window_right != 0 ||
                             o.window_chunk != 0 || o.alibi_slopes;
  if (by_query && has_positions) return RAPT_BAD_QUERIES_PER_LIST;
  if (o.cache_len == 0 && o.kv_len != 0) return RAPT_BAD_CACHE_LEN;
  const std::size_t lists = lists_per_sequence(o);
  rapt_status status = resolve_strides(o.key_list_strides, {o.batch, o.kv_heads, lists, o.kv_len},
                                       MayRepeat::yes, RAPT_BAD_KEY_LIST_STRIDES);
  if (status != RAPT_OK) return status;
  if (!o.key_list_lengths) return all_zero(o.key_list_length_strides) ? RAPT_OK : RAPT_BAD_KEY_LIST_STRIDES;
  return resolve_strides(o.key_list_length_strides, {o.batch, o.kv_heads, lists, 1}, MayRepeat::yes,
                         RAPT_BAD_KEY_LIST_STRIDES);
}

// Copies the caller's options to `o` and fills in every default, except the strides that depend on arrays.
// resolve() must run in the default floating-point mode, because a caller's DAZ would make a subnormal option
// 0.
inline rapt_status resolve(const rapt_attention_options *given, rapt_attention_options &o) {
  if (!given) return RAPT_BAD_OPTIONS;
  rapt_status status = read_options(given, o);
  if (status == RAPT_OK) status = resolve_shape(o);
  if (status == RAPT_OK) status = resolve_types(o);
  if (status == RAPT_OK) status = resolve_bias_type(o);
  if (status == RAPT_OK) status = resolve_scores(o);
  if (status == RAPT_OK) status = check_causal(o.causal, o.causal_offset);
  if (status == RAPT_OK) status = resolve_pages(o);
  if (status == RAPT_OK) status = resolve_lists(o);
  if (status == RAPT_OK) status = resolve_own_strides(o);
  return status;
}

// Checks the [batch + 1] offsets of packed sequences.
inline rapt_status check_offsets(const std::int32_t *offsets, std::size_t batch, std::size_t longest) {
  if (!offsets) return RAPT_OK;
  if (offsets[0] < 0) return RAPT_BAD_OFFSETS;
  for (std::size_t b = 0; b < batch; ++b) {
    if (offsets[b + 1] < offsets[b]) return RAPT_BAD_OFFSETS;
    if (static_cast<std::size_t>(offsets[b + 1] - offsets[b]) > longest) return RAPT_BAD_OFFSETS;
  }
  return RAPT_OK;
}

inline rapt_status check_lengths(const rapt_attention_options &o) {
  rapt_status status = check_offsets(o.q_offsets, o.batch, o.q_len);
  if (status == RAPT_OK) status = check_offsets(o.kv_offsets, o.batch, o.kv_len);
  if (status != RAPT_OK) return status;
  for (std::size_t b = 0; o.kv_lengths && b < o.batch; ++b) {
    const bool fits = o.kv_lengths[b] >= 0 && static_cast<std::size_t>(o.kv_lengths[b]) <= o.kv_len;
    if (!fits) return RAPT_BAD_KV_LENGTHS;
    // A packed sequence may have fewer keys than its offsets hold, but not more.
    if (o.kv_offsets && o.kv_lengths[b] > o.kv_offsets[b + 1] - o.kv_offsets[b]) return RAPT_BAD_KV_LENGTHS;
  }
  return RAPT_OK;
}

// Checks where padded sequences begin. Their lengths must have been checked. Blocks are counted from the start,
// so that it must not divide what lies together in pages or packed keys.
inline rapt_status check_starts(const rapt_attention_options &o) {
  const std::size_t unit = o.packed_keys ? attention_block : o.block_table ? attention_page_unit : 1;
  for (std::size_t b = 0; o.kv_starts && b < o.batch; ++b) {
    const auto length = o.kv_lengths ? static_cast<std::size_t>(o.kv_lengths[b]) : o.kv_len;
    if (o.kv_starts[b] < 0) return RAPT_BAD_KV_STARTS;
    const auto start = static_cast<std::size_t>(o.kv_starts[b]);
    if (start > length || start % unit != 0) return RAPT_BAD_KV_STARTS;
  }
  for (std::size_t b = 0; o.q_starts && b < o.batch; ++b) {
    if (o.q_starts[b] < 0 || static_cast<std::size_t>(o.q_starts[b]) > o.q_len) return RAPT_BAD_Q_STARTS;
  }
  return RAPT_OK;
}

// Calls f(page) for every page that holds keys. Returns false if f returns false, or if the table is too
// narrow.
template <class F>
bool for_each_page(const rapt_attention_options &o, F f) {
  for (std::size_t b = 0; b < o.batch; ++b) {
    const std::size_t length = o.kv_lengths ? static_cast<std::size_t>(o.kv_lengths[b]) : o.kv_len;
    const std::size_t pages = length / o.page_size + (length % o.page_size != 0);
    if (pages > o.block_table_stride) return false;
    const std::size_t start = o.kv_starts ? static_cast<std::size_t>(o.kv_starts[b]) : 0;
    for (std::size_t i = start / o.page_size; i < pages && start < length; ++i) {
      if (!f(o.block_table[b * o.block_table_stride + i])) return false;
    }
  }
  return true;
}

inline rapt_status check_pages(const rapt_attention_options &o) {
  if (!o.block_table) return RAPT_OK;
  return for_each_page(o, [](std::int32_t page) { return page >= 0; }) ? RAPT_OK : RAPT_BAD_BLOCK_TABLE;
}

}  // namespace
}  // namespace rapt
