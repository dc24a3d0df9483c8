// A call of attention, forwards or backwards, and the rows that it consists of.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "contract/attention.hpp"
#include "rapt/rapt.h"

namespace rapt {

// A call computes all of attention, or one half of it where keys are split.
enum class AttentionStage { whole, partial, merge };

// The arguments of the public functions, checked, with every default filled in.
struct AttentionCall {
  const void *q = nullptr;
  const void *k = nullptr;
  const void *v = nullptr;
  void *out = nullptr;       // null where partials are written
  void *partials = nullptr;  // null unless they are written or read
  rapt_attention_options options = RAPT_ATTENTION_OPTIONS_INIT;

  const rapt_attention_gradients *gradients = nullptr;  // of a backward call, resolved as well
  AttentionStage stage = AttentionStage::whole;

  std::size_t group() const { return options.q_heads / options.kv_heads; }
  std::size_t tiles_a_sequence() const {
    return (options.q_len * group() + attention_tile_rows - 1) / attention_tile_rows;
  }
  // A sequence without queries has a number too: a backward call writes its keys' gradients.
  std::size_t numbers_a_sequence() const { return tiles_a_sequence() > 0 ? tiles_a_sequence() : 1; }
  std::size_t tiles() const { return options.batch * options.kv_heads * tiles_a_sequence(); }
  std::size_t chunks() const { return (options.kv_len + attention_chunk - 1) / attention_chunk; }
};

}  // namespace rapt

namespace {

inline std::ptrdiff_t at(std::ptrdiff_t stride, std::size_t index) {
  return stride * static_cast<std::ptrdiff_t>(index);
}

// The rows of one task: the queries of the query heads that share a key/value head of a sequence, token by
// token and within a token head by head. So a tile of few tokens and many heads is filled, and under
// causality its rows see nearly the same keys.
class AttentionTile {
 public:
  using Call = rapt::AttentionCall;

  AttentionTile(const Call &call, std::size_t index) : call_(call), o_(call.options), group_(call.group()) {
    const std::size_t tiles = call.numbers_a_sequence();
    const std::size_t sequence_head = index / tiles;
    sequence_ = sequence_head / o_.kv_heads;
    kv_head_ = sequence_head % o_.kv_heads;
    q_len_ = o_.q_offsets ? static_cast<std::size_t>(o_.q_offsets[sequence_ + 1] - o_.q_offsets[sequence_])
                          : o_.q_len;
    kv_len_ = o_.kv_lengths ? static_cast<std::size_t>(o_.kv_lengths[sequence_]) : all_keys();
    const std::size_t all = q_len_ * group_;
    first_ = index % tiles * rapt::attention_tile_rows;
    if (first_ > all) first_ = all;
    rows_ = all - first_ < rapt::attention_tile_rows ? all - first_ : rapt::attention_tile_rows;
  }

  std::size_t rows() const { return rows_; }
  std::size_t kv_len() const { return kv_len_; }
  const rapt_attention_options &options() const { return o_; }

  struct Row {
    std::size_t token;
    std::size_t q_head;
  };
  Row row(std::size_t index) const {
    return {(first_ + index) / group_, kv_head_ * group_ + (first_ + index) % group_};
  }
  Row next(Row row) const {
    const bool last_head = row.q_head + 1 == (kv_head_ + 1) * group_;
    return last_head ? Row{row.token + 1, kv_head_ * group_} : Row{row.token, row.q_head + 1};
  }

  // The keys that a row sees, but for mask and bias: those from .first on, up to .end.
  struct Range {
    std::size_t first;
    std::size_t end;
  };
  std::int64_t position(Row row) const {
    const std::int64_t offset = o_.causal == RAPT_CAUSAL_OFFSET     ? o_.causal_offset
                                : o_.causal == RAPT_CAUSAL_TOP_LEFT ? 0
                                                                    : keys_before_queries();
    return static_cast<std::int64_t>(row.token) + offset;
  }
  Range range(Row row) const {
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

  template <class T>
  const T *q(Row row) const {
    return static_cast<const T *>(call_.q) + query_token(o_.q_strides, row);
  }
  template <class T>
  T *out(Row row) const {
    return static_cast<T *>(call_.out) + query_token(o_.out_strides, row);
  }
  template <class T>
  T *lse(Row row) const {
    return o_.lse ? static_cast<T *>(o_.lse) + query_token(o_.lse_strides, row) : nullptr;
  }
  // Of a backward call.
  const rapt_attention_gradients &gradients() const { return *call_.gradients; }
  template <class T>
  const T *forward_out(Row row) const {
    return static_cast<const T *>(gradients().out) + query_token(o_.out_strides, row);
  }
  template <class T>
  const T *dout(Row row) const {
    return static_cast<const T *>(gradients().dout) + query_token(gradients().dout_strides, row);
  }
  template <class T>
  T *dq(Row row) const {
    return static_cast<T *>(gradients().dq) + query_token(gradients().dq_strides, row);
  }
  template <class T>
  T *dk(std::size_t key) const {
    return static_cast<T *>(gradients().dk) + kv_token(gradients().dk_strides, key, false);
  }
  template <class T>
  T *dv(std::size_t key) const {
    return static_cast<T *>(gradients().dv) + kv_token(gradients().dv_strides, key, false);
  }
  template <class T>
  T *dbias(Row row) const {
    return gradients().dbias ? static_cast<T *>(gradients().dbias) + own_token(o_.bias_strides, row)
                             : nullptr;
  }
  // Keys whose gradients are the sequence's, seen or not.
  std::size_t all_keys() const {
    return o_.kv_offsets ? static_cast<std::size_t>(o_.kv_offsets[sequence_ + 1] - o_.kv_offsets[sequence_])
                         : o_.kv_len;
  }
  std::size_t kv_head() const { return kv_head_; }
  std::size_t group() const { return group_; }

  template <class T>
  T *partial(Row row, std::size_t chunk) const {
    const std::size_t query = (sequence_ * o_.q_heads + row.q_head) * o_.q_len + row.token;
    return static_cast<T *>(call_.partials) + (query * call_.chunks() + chunk) * (o_.v_dim + 2);
  }

  // The first of the keys from `key` on, and the distance to the next, which holds up to the next multiple of
  // 16 (of 64 for packed keys, where it is 1 and dimensions are 64 apart).
  template <class T>
  const T *k(std::size_t key) const {
    return static_cast<const T *>(call_.k) + kv_token(o_.k_strides, key, o_.packed_keys != 0);
  }
  template <class T>
  const T *v(std::size_t key) const {
    return static_cast<const T *>(call_.v) + kv_token(o_.v_strides, key, false);
  }

  // Of a row, from key 0 on; null without.
  template <class T>
  const T *bias(Row row) const {
    return o_.bias ? static_cast<const T *>(o_.bias) + own_token(o_.bias_strides, row) : nullptr;
  }
  const std::uint8_t *mask(Row row) const {
    return o_.mask ? o_.mask + own_token(o_.mask_strides, row) : nullptr;
  }
  template <class T>
  double scale(Row row) const {
    if (!o_.query_scales) return o_.scale;
    return o_.scale * double{static_cast<const T *>(o_.query_scales)[own_token(o_.query_scale_strides, row)]};
  }
  template <class T>
  T slope(Row row) const {
    return o_.alibi_slopes ? static_cast<const T *>(o_.alibi_slopes)[row.q_head] : T(0);
  }
  template <class T>
  T sink(Row row) const {
    return o_.sinks ? static_cast<const T *>(o_.sinks)[row.q_head] : -std::numeric_limits<T>::infinity();
  }

 private:
  std::int64_t keys_before_queries() const {
    return static_cast<std::int64_t>(kv_len_) - static_cast<std::int64_t>(q_len_);
  }
  // Positions are below 2^61, so that a longer window sees the same keys. Sums with it do not overflow.
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
  std::ptrdiff_t kv_token(const rapt_strides &s, std::size_t key, bool packed) const {
    std::ptrdiff_t base = at(s.batch, sequence_);
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
    constexpr std::size_t block = rapt::attention_block;
    return base + static_cast<std::ptrdiff_t>(key / block * block * o_.qk_dim + key % block);
  }

  const Call &call_;
  const rapt_attention_options &o_;
  std::size_t group_;
  std::size_t sequence_, kv_head_, q_len_, kv_len_;
  std::size_t first_, rows_;
};

// The sequences and key/value heads of a task of a backward call: so many that nobody else adds to what it
// adds to.
class BackwardTask {
 public:
  BackwardTask(const rapt::AttentionCall &call, std::size_t index) : call_(call) {
    const rapt_attention_options &o = call.options;
    const bool all_batches = joins_batches(call), all_heads = joins_heads(call);
    const std::size_t heads = all_heads ? 1 : o.kv_heads;
    first_batch_ = all_batches ? 0 : index / heads;
    batches_ = all_batches ? o.batch : 1;
    first_head_ = all_heads ? 0 : index % heads;
    heads_ = all_heads ? o.kv_heads : 1;
  }
  static std::size_t count(const rapt::AttentionCall &call) {
    return (joins_batches(call) ? 1 : call.options.batch) * (joins_heads(call) ? 1 : call.options.kv_heads);
  }

  // f(tile) for the first tile of every head, in order.
  template <class F>
  void for_each_head(F f) const {
    for_each_index([&](std::size_t index) { f(AttentionTile(call_, index)); });
  }
  // f(tile) for every tile with rows, in order.
  template <class F>
  void for_each_tile(F f) const {
    for_each_index([&](std::size_t index) {
      for (std::size_t t = 0; t < call_.numbers_a_sequence(); ++t) {
        const AttentionTile tile(call_, index + t);
        if (tile.rows() > 0) f(tile);
      }
    });
  }

 private:
  template <class F>
  void for_each_index(F f) const {
    for (std::size_t b = first_batch_; b < first_batch_ + batches_; ++b) {
      for (std::size_t h = first_head_; h < first_head_ + heads_; ++h) {
        f((b * call_.options.kv_heads + h) * call_.numbers_a_sequence());
      }
    }
  }
  static bool joins_batches(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dsinks || (call.gradients->dbias && o.batch > 1 && o.bias_strides.batch == 0);
  }
  static bool joins_heads(const rapt::AttentionCall &call) {
    const rapt_attention_options &o = call.options;
    return call.gradients->dbias && o.kv_heads > 1 && o.bias_strides.head == 0;
  }

  const rapt::AttentionCall &call_;
  std::size_t first_batch_, batches_, first_head_, heads_;
};

// The numbers that make a row's weights of its scores.
template <class T>
struct AttentionScale {
  using C = rapt::AttentionContract<T>;

  // Scores are dot products as they are, of a query that has `sign`, or are made of them in natural units.
  bool made;
  T sign = 1;
  T factor = 1;       // made: of the dot product, before the softcap's tanh
  T cap = 0;          // made: of tanh, if not 0
  T slope = 0;        // made
  T to_log2;          // a score times this is in units of log 2
  T cutoff;           // a score's distance from the maximum below which its weight is 0
  double to_natural;  // a score times this is in units of log e

  AttentionScale(const AttentionTile &tile, AttentionTile::Row row) {
    const rapt_attention_options &o = tile.options();
    const double scale = tile.scale<T>(row);
    made = o.softcap != 0 || o.bias || o.alibi_slopes;
    if (made) {
      cap = static_cast<T>(o.softcap);
      factor = static_cast<T>(cap != 0 ? scale / o.softcap : scale);
      slope = tile.slope<T>(row);
      to_natural = 1;
    } else {
      sign = scale < 0 ? T(-1) : T(1);
      to_natural = std::fabs(scale);
      // Scores that are visible are then not finite; what weights are made with stays finite.
      if (!std::isfinite(static_cast<T>(scale * C::log2_e))) {
        sign = static_cast<T>(scale);
        to_natural = 1;
      }
    }
    to_log2 = static_cast<T>(to_natural * C::log2_e);
    cutoff = C::lowest_log2 / to_log2;
  }
};

}  // namespace
