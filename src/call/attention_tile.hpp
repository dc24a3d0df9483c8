// Describes a task of attention: up to 64 rows, the keys that each row sees, and the addresses of its arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "call/attention_call.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "call/packed_keys.hpp"
#include "contract/attention.hpp"

namespace {

inline std::ptrdiff_t at(std::ptrdiff_t stride, std::size_t index) {
  return stride * static_cast<std::ptrdiff_t>(index);
}

// The rows of a task are queries of all query heads that share a key/value head of a sequence. They are
// ordered token by token, and within a token head by head. So a tile with few tokens and many heads is full,
// and the rows of a causal tile see nearly the same keys.
//
// A sequence may have padding before its first key. Keys and positions here count from that key. Only addresses know of
// the padding, so that a padded sequence is computed as it would be alone.
class AttentionTile {
 public:
  using Call = rapt::AttentionCall;

  // `gathered` is the part of the workspace for scattered keys and values (call/attention_workspace.hpp). Only kernels
  // that gather these need it.
  AttentionTile(const Call &call, std::size_t index, void *gathered = nullptr)
      : call_(call),
        o_(call.options),
        index_(index),
        heads_(call.q_heads_per_kv_head()),
        is_scattered_(rapt::is_scattered(call.options)),
        gathered_(gathered) {
    const std::size_t tiles = call.tile_numbers_per_sequence();
    const std::size_t sequence_head = index / tiles;
    sequence_ = sequence_head / o_.kv_heads;
    kv_head_ = sequence_head % o_.kv_heads;
    q_len_ = o_.q_offsets ? static_cast<std::size_t>(o_.q_offsets[sequence_ + 1] - o_.q_offsets[sequence_])
                          : o_.q_len;
    start_ = o_.kv_starts ? static_cast<std::size_t>(o_.kv_starts[sequence_]) : 0;
    first_query_ = o_.q_starts ? static_cast<std::size_t>(o_.q_starts[sequence_]) : 0;
    kv_len_ = o_.kv_lengths ? static_cast<std::size_t>(o_.kv_lengths[sequence_]) - start_ : all_keys();
    if (o_.key_lists) {
      choose_list(index % tiles);
    } else {
      choose_rows(index % tiles, 0, all_rows());
    }
  }

  std::size_t index() const { return index_; }
  std::size_t rows() const { return rows_; }
  // Returns the number of rows in all tiles of this head.
  std::size_t all_rows() const { return q_len_ * heads_; }
  // Returns whether no earlier tile of the call reads the same keys.
  bool is_first_of_keys() const { return first_ == first_of_list_; }
  std::size_t kv_len() const { return kv_len_; }
  const Call &call() const { return call_; }
  const rapt_attention_options &options() const { return o_; }

  struct Row {
    std::size_t token;
    std::size_t q_head;
  };
  Row row(std::size_t index) const {
    return {(first_ + index) / heads_, kv_head_ * heads_ + (first_ + index) % heads_};
  }
  Row next(Row row) const {
    const bool last_head = row.q_head + 1 == (kv_head_ + 1) * heads_;
    return last_head ? Row{row.token + 1, kv_head_ * heads_} : Row{row.token, row.q_head + 1};
  }

  // A row sees the keys [first, end), before mask and bias exclude more.
  struct Range {
    std::size_t first;
    std::size_t end;
  };
  std::int64_t position(Row row) const {
    const auto start = static_cast<std::int64_t>(start_);
    const std::int64_t offset = o_.causal == RAPT_CAUSAL_OFFSET     ? o_.causal_offset - start
                                : o_.causal == RAPT_CAUSAL_TOP_LEFT ? -start
                                                                    : keys_before_queries();
    return static_cast<std::int64_t>(row.token) + offset;
  }
  Range range(Row row) const {
    if (row.token < first_query_) return {0, 0};
    const std::int64_t p = position(row);
    std::int64_t first = 0, end = static_cast<std::int64_t>(kv_len_);
    if (o_.causal != RAPT_CAUSAL_NONE && end > p + 1) end = p + 1;
    if (o_.window_left != 0 && first <= p - limited(o_.window_left)) first = p - limited(o_.window_left) + 1;
    if (o_.window_right != 0 && end > p + limited(o_.window_right)) end = p + limited(o_.window_right);
    if (o_.window_chunk != 0) {
      const std::int64_t length = limited(o_.window_chunk);
      const std::int64_t chunk = (p >= 0 ? p : p - (length - 1)) / length * length;
      if (first < chunk) first = chunk;
      if (end > chunk + length) end = chunk + length;
    }
    if (end <= first) return {0, 0};
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(end)};
  }

  template <class E>
  const E *q(Row row) const {
    return static_cast<const E *>(call_.q) + query_token(o_.q_strides, row);
  }
  template <class E>
  E *out(Row row) const {
    return static_cast<E *>(call_.out) + query_token(o_.out_strides, row);
  }
  template <class A>
  A *lse(Row row) const {
    return o_.lse ? static_cast<A *>(o_.lse) + query_token(o_.lse_strides, row) : nullptr;
  }
  // Only a backward call has gradients.
  const rapt_attention_gradients &gradients() const { return *call_.gradients; }
  rapt_type dq_type() const { return gradient_type(o_.q_type); }
  rapt_type dkv_type() const { return gradient_type(o_.kv_type); }
  template <class E>
  const E *forward_out(Row row) const {
    return static_cast<const E *>(gradients().out) + query_token(o_.out_strides, row);
  }
  template <class E>
  const E *dout(Row row) const {
    return static_cast<const E *>(gradients().dout) + query_token(gradients().dout_strides, row);
  }
  template <class E>
  E *dq(Row row) const {
    return static_cast<E *>(gradients().dq) + query_token(gradients().dq_strides, row);
  }
  template <class E>
  E *dk(std::size_t key) const {
    return static_cast<E *>(gradients().dk) + kv_token(gradients().dk_strides, key, false);
  }
  template <class E>
  E *dv(std::size_t key) const {
    return static_cast<E *>(gradients().dv) + kv_token(gradients().dv_strides, key, false);
  }
  template <class A>
  A *dbias(Row row) const {
    return gradients().dbias ? static_cast<A *>(gradients().dbias) + own_token(o_.bias_strides, row) + start_
                             : nullptr;
  }
  // Returns the number of keys of the sequence, visible or not. A backward call writes the gradients of all
  // keys.
  std::size_t all_keys() const {
    return (o_.kv_offsets ? static_cast<std::size_t>(o_.kv_offsets[sequence_ + 1] - o_.kv_offsets[sequence_])
                          : o_.kv_len) -
           start_;
  }
  // Returns the number of keys of padding before the first key.
  std::size_t padding() const { return start_; }
  std::size_t kv_head() const { return kv_head_; }
  std::size_t q_heads_per_kv_head() const { return heads_; }

  template <class A>
  A *partial(Row row, std::size_t chunk) const {
    const std::size_t query = (sequence_ * o_.q_heads + row.q_head) * o_.q_len + row.token;
    return static_cast<A *>(call_.partials) + (query * call_.chunks() + chunk) * (o_.v_dim + 2);
  }

  // Returns whether keys that follow each other may lie anywhere.
  bool is_scattered() const { return is_scattered_; }
  // Returns whether these keys exist, and follow each other at the token stride.
  bool lie_together(std::size_t key, std::size_t count) const {
    const std::size_t token = key + start_;
    if (!list_) return token / o_.page_size == (token + count - 1) / o_.page_size;
    if (list_[key] < 0) return false;
    constexpr std::size_t unit = rapt::attention_page_unit;
    return count == unit ? are_consecutive(list_ + key, unit) : are_consecutive(list_ + key, count);
  }
  // Returns whether a list has an entry without a key here. Such a key has no address.
  bool is_missing(std::size_t key) const { return list_ && list_[key] < 0; }
  // Returns the missing keys among the `count` keys from `first` on, at most 64. Bit j belongs to key first + j.
  std::uint64_t missing(std::size_t first, std::size_t count) const {
    if (!list_) return 0;
    constexpr std::size_t block = rapt::attention_block;
    const std::int32_t *const entries = list_ + first;
    if ((count == block ? all_bits(entries, block) : all_bits(entries, count)) >= 0) return 0;
    std::uint64_t bits = 0;
    for (std::size_t j = 0; j < count; ++j) bits |= std::uint64_t{entries[j] < 0} << j;
    return bits;
  }
  // Returns whether the entries [first, last) of the list, up to its end, are -1 or tokens of the cache.
  bool lists_only_tokens(std::size_t first, std::size_t last) const {
    constexpr std::size_t numbers = std::size_t{1} << 31;
    const auto most = static_cast<std::uint32_t>(o_.cache_len < numbers ? o_.cache_len : numbers);
    std::uint32_t bad = 0;
    for (std::size_t j = first; j < (last < kv_len_ ? last : kv_len_); ++j) {
      bad |=
          static_cast<std::uint32_t>(static_cast<std::uint32_t>(list_[j]) + 1 > most);  // + 1: -1 becomes 0
    }
    return bad == 0;
  }
  // Returns the list of keys, or null.
  const std::int32_t *list() const { return list_; }
  void *gathered() const { return gathered_; }

  // Returns the address of a key or value, which must not be missing. Unless the tile is scattered, the keys or values
  // up to the next multiple of attention_page_unit follow at the token stride. In packed keys, the elements of one
  // dimension of a block's keys are contiguous.
  template <class E>
  const E *k(std::size_t key) const {
    return static_cast<const E *>(call_.k) + kv_token(o_.k_strides, key, o_.packed_keys != 0);
  }
  template <class E>
  const E *v(std::size_t key) const {
    return static_cast<const E *>(call_.v) + kv_token(o_.v_strides, key, false);
  }

  // Returns the address of a token that a list may name.
  template <class E>
  const E *k_of_token(std::size_t token) const {
    return static_cast<const E *>(call_.k) + token_of_head(o_.k_strides, token);
  }
  template <class E>
  const E *v_of_token(std::size_t token) const {
    return static_cast<const E *>(call_.v) + token_of_head(o_.v_strides, token);
  }

  // Returns the scales of a key or value, one per scale group.
  const float *k_scales(std::size_t key) const {
    return o_.k_scales + kv_token(call_.k_scale_strides, key, false);
  }
  const float *v_scales(std::size_t key) const {
    return o_.v_scales + kv_token(call_.v_scale_strides, key, false);
  }
  const float *k_scales_of_token(std::size_t token) const {
    return o_.k_scales + token_of_head(call_.k_scale_strides, token);
  }
  const float *v_scales_of_token(std::size_t token) const {
    return o_.v_scales + token_of_head(call_.v_scale_strides, token);
  }
  const rapt_strides &k_scale_strides() const { return call_.k_scale_strides; }
  const rapt_strides &v_scale_strides() const { return call_.v_scale_strides; }

  // Returns the bias of a row from key 0 on, whose elements have the type bias_type; null without a bias.
  const char *bias(Row row) const {
    if (!o_.bias) return nullptr;
    const std::ptrdiff_t first = own_token(o_.bias_strides, row) + static_cast<std::ptrdiff_t>(start_);
    return static_cast<const char *>(o_.bias) +
           first * static_cast<std::ptrdiff_t>(rapt::size_of(o_.bias_type));
  }
  // Returns what multiplies the bias of a row.
  template <class A>
  A bias_slope(Row row) const {
    return o_.bias_slopes ? static_cast<const A *>(o_.bias_slopes)[row.q_head] : A(1);
  }
  // Returns what the bias adds to a score. There must be one.
  template <class A>
  A bias_at(Row row, std::size_t key) const {
    return rapt::with_element<A>(o_.bias_type, [&](auto element) {
      using B = typename decltype(element)::type;
      return rapt::widened(reinterpret_cast<const B *>(bias(row))[key]) * bias_slope<A>(row);
    });
  }
  const std::uint8_t *mask(Row row) const {
    return o_.mask ? o_.mask + own_token(o_.mask_strides, row) + start_ : nullptr;
  }
  template <class A>
  double scale(Row row) const {
    if (!o_.query_scales) return o_.scale;
    return o_.scale * double{static_cast<const A *>(o_.query_scales)[own_token(o_.query_scale_strides, row)]};
  }
  template <class A>
  A slope(Row row) const {
    return o_.alibi_slopes ? static_cast<const A *>(o_.alibi_slopes)[row.q_head] : A(0);
  }
  template <class A>
  A sink(Row row) const {
    return o_.sinks ? static_cast<const A *>(o_.sinks)[row.q_head] : -std::numeric_limits<A>::infinity();
  }

 private:
  // The compiler vectorises these loops where their lengths are constants.
  static bool are_consecutive(const std::int32_t *entries, std::size_t count) {
    std::uint32_t differing = 0;
    const auto first = static_cast<std::uint32_t>(entries[0]);
    for (std::size_t i = 0; i < count; ++i) {
      differing |= static_cast<std::uint32_t>(entries[i]) ^ (first + static_cast<std::uint32_t>(i));
    }
    return differing == 0;
  }
  static std::int32_t all_bits(const std::int32_t *entries, std::size_t count) {
    std::int32_t bits = 0;
    for (std::size_t i = 0; i < count; ++i) bits |= entries[i];
    return bits;
  }

  // Chooses the rows of tile `tile` among the rows [first, end) of the head.
  void choose_rows(std::size_t tile, std::size_t first, std::size_t end) {
    first_of_list_ = first;
    first_ = first + tile * rapt::attention_tile_rows;
    if (first_ > end) first_ = end;
    rows_ = end - first_ < rapt::attention_tile_rows ? end - first_ : rapt::attention_tile_rows;
  }
  void choose_list(std::size_t tile) {
    const std::size_t tiles = call_.tiles_per_list(), all = all_rows();
    const std::size_t list = tiles > 0 ? tile / tiles : 0, rows = call_.queries_per_list() * heads_;
    list_ = o_.key_lists + of_list(o_.key_list_strides, list);
    if (o_.key_list_lengths && list * rows < all) {
      kv_len_ = static_cast<std::size_t>(o_.key_list_lengths[of_list(o_.key_list_length_strides, list)]);
    }
    const std::size_t first = list * rows < all ? list * rows : all;
    choose_rows(tile - list * tiles, first, all - first < rows ? all : first + rows);
  }
  std::ptrdiff_t of_list(const rapt_strides &s, std::size_t list) const {
    return at(s.batch, sequence_) + at(s.head, kv_head_) + at(s.token, list);
  }

  rapt_type gradient_type(rapt_type of_input) const {
    return gradients().type == RAPT_TYPE_DEFAULT ? of_input : gradients().type;
  }
  std::int64_t keys_before_queries() const {
    return static_cast<std::int64_t>(kv_len_) - static_cast<std::int64_t>(q_len_);
  }
  // Limits a window to 2^61, so that no sum with it overflows. Positions are below 2^61, so a longer window
  // would see the same keys.
  static std::int64_t limited(std::size_t window) {
    constexpr std::size_t limit = std::size_t{1} << 61;
    return static_cast<std::int64_t>(window < limit ? window : limit);
  }
  std::ptrdiff_t own_token(const rapt_strides &s, Row row) const {
    return at(s.batch, sequence_) + at(s.head, row.q_head) + at(s.token, row.token);
  }
  std::ptrdiff_t query_token(const rapt_strides &s, Row row) const {
    if (!o_.q_offsets) return own_token(s, row);
    return at(s.head, row.q_head) +
           at(s.token, static_cast<std::size_t>(o_.q_offsets[sequence_]) + row.token);
  }
  std::ptrdiff_t token_of_head(const rapt_strides &s, std::size_t token) const {
    return at(s.batch, sequence_) + at(s.head, kv_head_) + at(s.token, token);
  }
  std::ptrdiff_t kv_token(const rapt_strides &s, std::size_t key, bool packed) const {
    if (list_) return token_of_head(s, static_cast<std::size_t>(list_[key]));
    std::ptrdiff_t base = at(s.batch, sequence_);
    key += start_;
    if (o_.block_table) {
      const std::size_t page = key / o_.page_size;
      base = at(s.batch, static_cast<std::size_t>(o_.block_table[sequence_ * o_.block_table_stride + page]));
      key -= page * o_.page_size;
    } else if (o_.kv_offsets) {
      base = 0;
      key += static_cast<std::size_t>(o_.kv_offsets[sequence_]);
    }
    base += at(s.head, kv_head_);
    if (!packed) return base + at(s.token, key);
    return base + static_cast<std::ptrdiff_t>(rapt::packed_key_offset(key, o_.qk_dim));
  }

  const Call &call_;
  const rapt_attention_options &o_;
  std::size_t index_;
  std::size_t heads_;  // query heads per key/value head
  std::size_t sequence_, kv_head_, q_len_, kv_len_;
  std::size_t start_, first_query_;  // the first key and the first query in the caller's arrays
  std::size_t first_, rows_, first_of_list_;
  const std::int32_t *list_ = nullptr;  // the token of each key, or null
  bool is_scattered_;
  void *gathered_;
};

}  // namespace
