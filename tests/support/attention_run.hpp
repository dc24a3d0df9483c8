// Puts the inputs and options of an attention problem in memory, in any layout, for forward and backward
// runs. It also fills rapt_attention_options for a part of the problem.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "support/attention_blocks.hpp"
#include "support/attention_data.hpp"
#include "support/attention_memory.hpp"
#include "support/public_api.hpp"
#include "support/task_calls.hpp"

namespace rapt::test {

// T is the type of queries, and KV the type of keys and values.
template <class T, class KV = T>
class AttentionRun : protected TaskCalls {
 protected:
  using A = Number<T>;
  using Tensor = test::Tensor<T>;
  using Keys = test::Tensor<KV>;
  using Numbers = test::Tensor<A>;
  using Shape = typename Tensor::Shape;

  // A call computes one piece: some sequences of the batch, and some of their queries.
  struct Piece {
    std::size_t first_sequence, end_sequence;
    bool all_queries = true;
    std::size_t first_query = 0, end_query = 0;
  };

  // Holds q, k and v, or their gradients. They are separate tensors or slices of `whole`.
  struct Three {
    Tensor whole, q;
    Keys k, v;
  };

  AttentionRun(const Problem &problem, const Layout &layout, const AttentionLayout &how,
               rapt_arithmetic arithmetic = RAPT_ARITHMETIC_DEFAULT)
      : TaskCalls(layout, how.calls, problem.seed * 77 + 5),
        arithmetic_(arithmetic),
        problem_(problem.as<AttentionProblem>()),
        how_(how),
        a_(make_numbers(problem)),
        blocks_(are_in_blocks ? &make_attention_in_blocks(problem) : nullptr) {
    make_plain_where_it_must_be();
    make_padding();
    q_first_ = offsets_of(a_.q_lengths, a_.q_len, 0, how_.q_offsets ? 2 : 0);
    kv_slack_ = random_.one_in(2);
    kv_first_ = offsets_of(a_.kv_lengths, a_.kv_len, kv_slack_ ? 7 : 0, 3);
    if (how_.page_size != 0) make_block_table();
    if (how_.key_lists != 0) make_lists();
    place_inputs();
    place_options();
  }

  // Makes three tensors in the layout of q, k and v.
  Three three_tensors(std::size_t q_slot, std::size_t kv_slot) const {
    Three made;
    const Shape q = queries_of(a_.qk_dim), v = keys_of(blocks_ ? blocks_->v.row_bytes : a_.v_dim);
    Shape k = keys_of(blocks_ ? blocks_->k.row_bytes : a_.qk_dim);
    if constexpr (is_uniform) {
      if (how_.fused) return fused_tensors(q, k, v, q_slot);
    }
    Layout of_keys = layout_;
    const std::size_t alignment = blocks_ ? std::max(blocks_->k.element(), blocks_->v.element()) : 1;
    of_keys.offset[kv_slot] = of_keys.offset[kv_slot] / alignment * alignment;
    made.q = Tensor(q, how_.tokens_outside, gap(q_slot), layout_, q_slot);
    made.v = Keys(v, how_.tokens_outside, v_gap(kv_slot), of_keys, kv_slot);
    const bool packed = how_.packed_keys;
    if (packed) k = {k.batch, k.heads, 1, (k.tokens + 63) / 64 * 64 * a_.qk_dim};
    made.k = Keys(k, !packed && how_.tokens_outside, k_gap(kv_slot), of_keys, kv_slot);
    if (how_.repeated_heads && k.heads == 1 && a_.q_heads > 1) {
      made.k.repeat({false, true, false});
      made.v.repeat({false, true, false});
    }
    return made;
  }
  // Makes q, k and v as slices of one buffer.
  Three fused_tensors(const Shape &q, const Shape &k, const Shape &v, std::size_t slot) const {
    Three made;
    const std::size_t q_part = a_.q_heads * a_.qk_dim, k_part = a_.kv_heads * a_.qk_dim,
                      v_part = a_.kv_heads * a_.v_dim;
    made.whole = Tensor({a_.batch, 1, std::max(q_room(), kv_room()), q_part + k_part + v_part}, true,
                        gap(slot), layout_, slot);
    made.q = Tensor(made.whole, q, 0);
    made.k = Tensor(made.whole, k, q_part);
    made.v = Tensor(made.whole, v, q_part + k_part);
    return made;
  }
  Shape queries_of(std::size_t row) const {
    return how_.q_offsets ? Shape{1, a_.q_heads, q_first_.back(), row}
                          : Shape{a_.batch, a_.q_heads, q_room(), row};
  }
  Shape keys_of(std::size_t row) const {
    // One head is enough if the other heads repeat it with a stride of 0.
    const std::size_t heads = how_.repeated_heads && a_.kv_heads == 1 ? 1 : kv_heads();
    if (how_.page_size != 0) return {pages_, heads, how_.page_size, row};
    if (how_.kv_offsets) return {1, heads, kv_first_.back(), row};
    return {a_.batch, heads, how_.key_lists != 0 ? cache_len_ : kv_room(), row};
  }
  // Return the tokens of a sequence in memory, padding included.
  std::size_t q_room() const { return a_.q_len + query_padding_; }
  std::size_t kv_room() const { return a_.kv_len + key_padding_; }
  std::size_t gap(std::size_t slot) const { return static_cast<std::size_t>(layout_.gap[slot]); }
  // Return the gap between rows, in elements, or in bytes of rows in blocks. Where there are scales, it is a multiple
  // of their group.
  std::size_t k_gap(std::size_t slot) const {
    return kv_gap(slot, a_.qk_dim, blocks_ ? &blocks_->k : nullptr);
  }
  std::size_t v_gap(std::size_t slot) const {
    return kv_gap(slot, a_.v_dim, blocks_ ? &blocks_->v : nullptr);
  }
  std::size_t kv_gap(std::size_t slot, std::size_t dim, const BlockRows *rows) const {
    if (rows && rows->group == 0) return gap(slot) / rows->unit() * rows->unit();
    return rows || has_scales<KV> ? gap(slot) % 3 * (rows ? rows->unit() : a_.group_of(dim)) : gap(slot);
  }
  // Returns the API's strides, of those in bytes.
  static rapt_strides in_elements(rapt_strides strides, const BlockRows &rows) {
    for (std::ptrdiff_t *stride : {&strides.batch, &strides.head, &strides.token})
      if (*stride != RAPT_REPEAT) *stride = rows.stride(*stride);
    return strides;
  }
  std::size_t kv_heads() const { return how_.repeated_heads ? a_.q_heads : a_.kv_heads; }

  // Return the sequence and token of a query in memory. With q_offsets, all queries are in sequence 0.
  std::size_t query_sequence(std::size_t b) const { return how_.q_offsets ? 0 : b; }
  std::size_t query_token(std::size_t b, std::size_t i) const {
    return how_.q_offsets ? q_first_[b] + i : query_padding_ + i;
  }
  // Returns the sequence (or page) and token of a key in memory.
  std::pair<std::size_t, std::size_t> place_of_key(std::size_t b, std::size_t j) const {
    j += starts_[b];
    if (how_.page_size != 0) {
      const auto page = page_of_[b * table_stride_ + j / how_.page_size];
      return {static_cast<std::size_t>(page), j % how_.page_size};
    }
    if (how_.kv_offsets) return {0, kv_first_[b] + j};
    if (how_.key_lists != 0) return {b, static_cast<std::size_t>(token_of_[b * a_.kv_len + j])};
    return {b, j};
  }

  // Return the pointers for a call over the piece. Offsets and pages count from the tensor's first token.
  template <class U>
  U *queries_at(const test::Tensor<U> &tensor, const Piece &piece) const {
    if (piece.all_queries && how_.q_offsets) return tensor.data();
    const std::size_t b = piece.first_sequence;
    if (piece.all_queries) return tensor.at(b, 0, 0);
    return tensor.at(query_sequence(b), 0, query_token(b, piece.first_query));
  }
  template <class U>
  U *keys_at(const test::Tensor<U> &tensor, const Piece &piece) const {
    const bool from_first = how_.page_size != 0 || how_.kv_offsets;
    return tensor.at(from_first ? 0 : piece.first_sequence, 0, 0);
  }
  bool is_whole(const Piece &piece) const {
    return piece.all_queries && piece.first_sequence == 0 && piece.end_sequence == a_.batch;
  }
  template <class U>
  rapt_strides strides(const test::Tensor<U> &tensor, const Piece &piece) const {
    return is_whole(piece) ? tensor.given_strides() : tensor.strides();
  }

  void put_queries(const Tensor &tensor, const std::vector<A> &values, std::size_t row) const {
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.queries(b); ++i) {
          tensor.put(query_sequence(b), h, query_token(b, i), values.data() + a_.row({}, b, h, i) * row);
        }
      }
    }
  }

  // Makes a tensor for an option that has a row per query. `repeats` says which dimensions share rows.
  template <class U>
  test::Tensor<U> rows_tensor(oracle::Repeats repeats, std::size_t row, std::size_t offset) const {
    Layout layout = layout_;
    layout.offset[0] = offset;
    test::Tensor<U> tensor(
        {repeats.batch ? 1 : a_.batch, repeats.head ? 1 : a_.q_heads, repeats.token ? 1 : q_room(), row},
        how_.tokens_outside, gap(0), layout, 0);
    tensor.repeat(repeats);
    return tensor;
  }

  rapt_attention_options dims() const {
    rapt_attention_options o = types();
    o.qk_dim = a_.qk_dim;
    o.v_dim = a_.v_dim;
    o.scale_group = a_.scale_group;
    return o;
  }
  // Sets lists or pages of the sequences from b on. The workspace depends on them.
  void set_places_of_keys(std::size_t b, rapt_attention_options &o) const {
    o.kv_len = kv_room();
    if (how_.key_lists != 0) {
      o.key_lists = key_lists_.from(b * a_.kv_len);
      o.key_list_strides = {static_cast<std::ptrdiff_t>(a_.kv_len), RAPT_REPEAT, RAPT_REPEAT};
      o.cache_len = cache_len_;
    }
    if (how_.page_size != 0 && kv_room() > 0) {
      o.block_table = block_table_.from(b * table_stride_);
      o.page_size = how_.page_size;
    }
  }
  // Returns all options except lse and the strides of the outputs.
  rapt_attention_options options_of(const Piece &piece) {
    rapt_attention_options o = types();
    const std::size_t b = piece.first_sequence;
    o.batch = piece.end_sequence - b;
    o.q_heads = a_.q_heads;
    o.kv_heads = kv_heads() == a_.q_heads && random_.one_in(2) ? 0 : kv_heads();
    o.q_len = piece.all_queries ? q_room() : piece.end_query - piece.first_query;
    o.kv_len = kv_room();
    o.qk_dim = a_.qk_dim;
    o.v_dim = a_.v_dim == a_.qk_dim && random_.one_in(2) ? 0 : a_.v_dim;
    o.q_strides = strides(in_.q, piece);
    o.k_strides = strides(in_.k, piece);
    o.v_strides = strides(in_.v, piece);
    if constexpr (are_in_blocks) {
      o.k_strides = in_elements(o.k_strides, blocks_->k);
      o.v_strides = in_elements(o.v_strides, blocks_->v);
      if (blocks_->k.group != 0) o.k_scales = keys_at(k_scales_, piece);
      if (blocks_->v.group != 0) o.v_scales = keys_at(v_scales_, piece);
      o.scale_group = blocks_->scale_group;
    }
    if (how_.packed_keys) o.k_strides.token = -77;  // ignored, because packed keys have no token stride
    if constexpr (has_scales<KV>) {
      o.k_scales = keys_at(k_scales_, piece);
      o.v_scales = keys_at(v_scales_, piece);
      o.scale_group = a_.scale_group;
    }
    o.packed_keys = how_.packed_keys;

    const std::size_t row = piece.all_queries ? 0 : query_padding_ + piece.first_query;
    o.scale = a_.scale;
    o.softcap = a_.softcap;
    if (!a_.query_scales.empty()) {
      o.query_scales = query_scales_.at(b, 0, row);
      o.query_scale_strides = query_scales_.strides();
    }
    o.alibi_slopes = slopes_.data();
    o.sinks = sinks_.data();
    if (!a_.bias.empty()) {
      o.bias = bias_.at(b, 0, row);
      o.bias_strides = bias_.strides();
      if (has_half_bias()) {
        o.bias = half_bias_.at(b, 0, row);
        o.bias_strides = half_bias_.strides();
        o.bias_type = RAPT_F16;
      }
      o.bias_slopes = bias_slopes_.data();
    }
    if (!a_.mask.empty() && !lists_exclude_) {
      o.mask = mask_.at(b, 0, row);
      o.mask_strides = mask_.strides();
    }
    set_visibility(a_, o);
    if (a_.causal == oracle::Causal::offset) move_positions(b, query_padding_, o);
    if (key_padding_ != 0) o.kv_starts = kv_starts_.from(b);
    if (piece.all_queries) o.q_starts = q_starts_.from(b);
    if (how_.kv_offsets) o.kv_offsets = kv_offsets_.from(b);
    if (!how_.kv_offsets || kv_slack_) o.kv_lengths = kv_lengths_.from(b);
    if (how_.q_offsets && piece.all_queries) o.q_offsets = q_offsets_.from(b);
    set_places_of_keys(b, o);
    if (o.key_lists) {
      const bool has_positions = o.causal != RAPT_CAUSAL_NONE || o.window_left != 0 || o.window_right != 0 ||
                                 o.window_chunk != 0 || o.alibi_slopes;
      if (!has_positions && random_.one_in(2)) o.queries_per_list = 1 + random_.below(o.q_len + 1);
    }
    if (o.block_table) {
      const bool is_least = table_stride_ == (kv_room() + how_.page_size - 1) / how_.page_size;
      o.block_table_stride = is_least && random_.one_in(2) ? 0 : table_stride_;
    }
    return o;
  }

  // Counts positions in columns of memory. Queries and keys there have padding before them.
  void move_positions(std::size_t b, std::size_t padding_of_queries, rapt_attention_options &o) const {
    if (starts_[b] == padding_of_queries) return;
    if (o.causal == RAPT_CAUSAL_TOP_LEFT) o.causal = RAPT_CAUSAL_OFFSET;
    o.causal_offset +=
        static_cast<std::ptrdiff_t>(starts_[b]) - static_cast<std::ptrdiff_t>(padding_of_queries);
    if (o.causal_offset == 0) o.causal = RAPT_CAUSAL_TOP_LEFT;
  }

  void check_options() {
    fault_unless(k_scales_.unchanged() && v_scales_.unchanged() && query_scales_.unchanged() &&
                     bias_.unchanged() && half_bias_.unchanged() && bias_slopes_.intact() &&
                     mask_.unchanged() && slopes_.intact() && sinks_.intact() && kv_lengths_.intact() &&
                     q_offsets_.intact() && kv_offsets_.intact() && block_table_.intact() &&
                     kv_starts_.intact() && q_starts_.intact() && key_lists_.intact(),
                 "to an option's array");
  }

  rapt_arithmetic arithmetic_;
  const AttentionProblem &problem_;
  AttentionLayout how_;
  oracle::Attention<A> a_;
  const AttentionInBlocks *blocks_;  // null unless keys and values are in blocks
  std::vector<std::size_t> kv_first_;
  std::size_t table_stride_ = 0;
  std::size_t key_padding_ = 0, query_padding_ = 0;  // how many more tokens sequences have in memory
  std::vector<std::size_t> starts_;                  // the first key of each sequence
  Three in_;
  Numbers bias_;

 private:
  static constexpr bool is_uniform = std::is_same_v<T, KV>, are_in_blocks = std::is_same_v<KV, InBlocks>;

  static oracle::Attention<A> make_numbers(const Problem &problem) {
    if constexpr (is_uniform || sizeof(KV) == 1) {
      return make_attention<KV>(problem);
    } else {
      oracle::Attention<A> made = make_attention<A>(problem);
      for (A &number : made.q) number = A{T(number)};
      for (A &number : made.k) number = A{KV(number)};
      for (A &number : made.v) number = A{KV(number)};
      return made;
    }
  }
  rapt_attention_options types() const {
    rapt_attention_options o = attention_options<T>();
    if constexpr (are_in_blocks) {
      o.kv_type = blocks_->k.type;
      if (blocks_->v.type != o.kv_type || problem_.rows % 2 == 0) o.v_type = blocks_->v.type;
    } else if constexpr (!is_uniform) {
      o.kv_type = Api<KV>::type;
    }
    if (arithmetic_ != RAPT_ARITHMETIC_DEFAULT) o.arithmetic = arithmetic_;
    return o;
  }
  void make_plain_where_it_must_be() {
    if (!is_uniform) how_.fused = false;
    if (!a_.q_lengths.empty()) how_.q_offsets = true;
    if (how_.page_size != 0 || how_.packed_keys) how_.kv_offsets = false;
    if (sizeof(KV) == 1) how_.fused = false;
    if (are_in_blocks) how_.packed_keys = false;
    if (how_.left_padding != 0) how_.kv_offsets = false;
    if (a_.kv_len == 0) how_.key_lists = 0;
    if (how_.key_lists != 0) {
      how_.packed_keys = how_.kv_offsets = how_.fused = false;
      how_.page_size = how_.left_padding = 0;
    }
    if (how_.packed_keys && how_.page_size != 0) how_.page_size = (how_.page_size + 63) / 64 * 64;
    if (how_.page_size != 0 || how_.packed_keys || how_.kv_offsets || how_.q_offsets || how_.repeated_heads) {
      how_.fused = false;
    }
  }

  // Puts keys of padding before each sequence, and queries of padding before its queries if these have a batch
  // dimension. The sequences end together, as prompts of one batch do, or begin anywhere. A bias for all of them, or a
  // causal offset, is right only if they begin at one column.
  void make_padding() {
    starts_.assign(a_.batch, 0);
    if (a_.q_len == 0 || a_.kv_len == 0) how_.left_padding = 0;
    if (how_.left_padding == 0) return;
    const std::size_t unit = how_.packed_keys ? 64 : how_.page_size != 0 ? 16 : 1;
    const std::size_t units = (how_.left_padding + unit - 1) / unit;
    const bool at_one_column = a_.causal == oracle::Causal::offset ||
                               (!a_.bias.empty() && a_.bias_repeats.batch) ||
                               (!a_.mask.empty() && a_.mask_repeats.batch);
    key_padding_ = units * unit;
    if (!how_.q_offsets)
      query_padding_ = random_.one_in(2) ? how_.left_padding : random_.below(how_.left_padding + 1);
    end_together_ = unit == 1 && (!at_one_column || a_.kv_lengths.empty()) && random_.one_in(2);
    const std::size_t first = random_.below(units + 1) * unit;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t own = random_.below(units + 1) * unit;
      starts_[b] = end_together_ ? kv_room() - a_.keys(b) : at_one_column ? first : own;
    }
  }

  // Returns the first token of each sequence. A random gap of up to `most_slack` follows each sequence.
  std::vector<std::size_t> offsets_of(const std::vector<std::int32_t> &lengths, std::size_t length,
                                      std::size_t most_slack, std::size_t first) {
    std::vector<std::size_t> offsets{first};
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t used = lengths.empty() ? length : static_cast<std::size_t>(lengths[b]);
      const std::size_t slack = std::min(most_slack, length - used);
      offsets.push_back(offsets.back() + used + random_.below(slack + 1));
    }
    return offsets;
  }

  // Gives each key a token of a larger cache. Tokens of a run follow each other there.
  void make_lists() {
    cache_len_ = a_.kv_len + random_.below(70);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      std::vector<std::size_t> runs;
      for (std::size_t first = 0; first < cache_len_; first += how_.key_lists) runs.push_back(first);
      for (std::size_t i = runs.size(); i > 1; --i) std::swap(runs[i - 1], runs[random_.below(i)]);
      for (const std::size_t first : runs) {
        for (std::size_t i = 0; i < how_.key_lists && first + i < cache_len_; ++i) {
          if (token_of_.size() < (b + 1) * a_.kv_len)
            token_of_.push_back(static_cast<std::int32_t>(first + i));
        }
      }
    }
    // Keys that no query sees may have no token in the list. All that a mask of all queries excludes have none, so that
    // the call needs no mask.
    lists_exclude_ = !a_.mask.empty() && a_.mask_repeats.head && a_.mask_repeats.token;
    std::vector<std::int32_t> entries = token_of_;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t j = 0; j < a_.keys(b); ++j) {
        const bool is_masked =
            lists_exclude_ && a_.mask[a_.row(a_.mask_repeats, b, 0, 0) * a_.kv_len + j] == 0;
        if (is_masked || (random_.one_in(2) && !is_seen(b, j))) entries[b * a_.kv_len + j] = -1;
      }
    }
    key_lists_.set(entries, layout_);
  }
  bool is_seen(std::size_t b, std::size_t j) const {
    for (std::size_t h = 0; h < a_.q_heads; ++h) {
      for (std::size_t i = 0; i < a_.queries(b); ++i) {
        if (oracle::is_visible(a_, b, h, i, j)) return true;
      }
    }
    return false;
  }

  // Gives each used page a random place in memory, and leaves unused pages between them.
  void make_block_table() {
    const std::size_t size = how_.page_size, columns = (kv_room() + size - 1) / size;
    table_stride_ = columns + (random_.one_in(2) ? 0 : 1 + random_.below(3));
    page_of_.assign(a_.batch * table_stride_, -1);
    std::vector<std::int32_t *> used;
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t i = starts_[b] / size; i * size < starts_[b] + a_.keys(b); ++i) {
        if (a_.keys(b) > 0) used.push_back(&page_of_[b * table_stride_ + i]);
      }
    }
    for (std::size_t i = used.size(); i > 1; --i) std::swap(used[i - 1], used[random_.below(i)]);
    for (std::int32_t *page : used) {
      *page = static_cast<std::int32_t>(pages_);
      pages_ += 1 + random_.one_in(3);
    }
    block_table_.set(page_of_, layout_);
  }

  void place_inputs() {
    in_ = three_tensors(0, 1);
    put_queries(in_.q, a_.q, a_.qk_dim);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < kv_heads(); ++h) {
        for (std::size_t j = 0; j < a_.keys(b); ++j) {
          const auto [sequence, token] = place_of_key(b, j);
          const std::size_t row = kv_row(b, h, j);
          if constexpr (are_in_blocks) {
            put_blocks(in_.k, sequence, h, token, blocks_->k.row(row));
            put_blocks(in_.v, sequence, h, token, blocks_->v.row(row));
          } else {
            if (!how_.packed_keys) in_.k.put(sequence, h, token, a_.k.data() + row * a_.qk_dim);
            in_.v.put(sequence, h, token, a_.v.data() + row * a_.v_dim);
          }
        }
      }
    }
    if constexpr (!are_in_blocks) {
      if (how_.packed_keys) pack_keys();
    }
    for (Tensor *tensor : {&in_.whole, &in_.q}) tensor->remember();
    for (Keys *tensor : {&in_.k, &in_.v}) tensor->remember();
    place_kv_scales();
  }

  static void put_blocks(const Keys &tensor, std::size_t sequence, std::size_t head, std::size_t token,
                         const std::uint8_t *bytes) {
    if (tensor.shape().any()) std::memcpy(tensor.at(sequence, head, token), bytes, tensor.shape().row);
  }

  // Scales have the strides of keys and values, divided by the number of elements per scale.
  void place_kv_scales() {
    if constexpr (are_in_blocks) {
      const BlockRows &k = blocks_->k, &v = blocks_->v;
      if (k.group != 0) k_scales_ = place_scales(k.scales, k.scales_per_row(), k_gap(1) / k.unit(), false);
      if (v.group != 0) v_scales_ = place_scales(v.scales, v.scales_per_row(), v_gap(1) / v.unit(), false);
    } else if constexpr (has_scales<KV>) {
      const std::size_t k_group = a_.group_of(a_.qk_dim), v_group = a_.group_of(a_.v_dim);
      k_scales_ = place_scales(a_.k_scales, a_.qk_dim / k_group, k_gap(1) / k_group, how_.packed_keys);
      v_scales_ = place_scales(a_.v_scales, a_.v_dim / v_group, v_gap(1) / v_group, false);
    }
  }
  // Places scales, of which a key or value has `groups`, `gap_of_rows` apart. Packed keys have those of all rows of a
  // head in one row.
  Numbers place_scales(const std::vector<A> &scales, std::size_t groups, std::size_t gap_of_rows,
                       bool are_of_packed) const {
    Shape shape = keys_of(groups);
    if (are_of_packed) {
      gap_of_rows += (shape.tokens + 63) / 64 * 64 * groups - shape.tokens * groups;
      shape = {shape.batch, shape.heads, 1, shape.tokens * groups};
    }
    Numbers made(shape, !are_of_packed && how_.tokens_outside, gap_of_rows, layout_, 1);
    if (how_.repeated_heads && shape.heads == 1 && a_.q_heads > 1) made.repeat({false, true, false});
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < kv_heads(); ++h) {
        for (std::size_t j = 0; j < a_.keys(b); ++j) {
          const auto [sequence, token] = place_of_key(b, j);
          const A *const row = scales.data() + kv_row(b, h, j) * groups;
          if (are_of_packed) {
            std::copy_n(row, groups, made.at(sequence, h, 0) + token * groups);
          } else {
            made.put(sequence, h, token, row);
          }
        }
      }
    }
    made.remember();
    return made;
  }
  // Returns the row of a_.k that belongs to head `h` in memory.
  std::size_t kv_row(std::size_t b, std::size_t h, std::size_t j) const {
    return a_.kv_row(b, how_.repeated_heads ? h : h * a_.q_heads_per_kv_head(), j);
  }

  // Packs a random number of tokens at a time, as a growing cache does. No call crosses a page boundary.
  void pack_keys() requires(!are_in_blocks) {
    const rapt_attention_options shape = dims();
    for (std::size_t b = 0; b < a_.batch; ++b) {
      for (std::size_t h = 0; h < kv_heads(); ++h) {
        for (std::size_t j = 0; j < a_.keys(b);) {
          const auto [sequence, token] = place_of_key(b, j);
          std::size_t tokens = std::min(a_.keys(b) - j, 1 + random_.below(150));
          if (how_.page_size != 0) tokens = std::min(tokens, how_.page_size - token);
          const auto first = a_.k.begin() + static_cast<std::ptrdiff_t>(kv_row(b, h, j) * a_.qk_dim);
          const std::vector<A> numbers(first, first + static_cast<std::ptrdiff_t>(tokens * a_.qk_dim));
          const std::vector<KV> keys = elements_of<KV>(numbers);
          check(rapt_attention_pack_keys(keys.data(), 0, token, tokens, &shape, in_.k.at(sequence, h, 0)));
          j += tokens;
        }
      }
    }
  }

  void place_options() {
    const std::size_t offset = layout_.offset[1];
    query_scales_ = place_rows<A>(a_.query_scales, {}, false, offset);
    place_bias(offset);
    mask_ = place_rows<std::uint8_t>(a_.mask, a_.mask_repeats, true, layout_.offset[0] / 4 + offset / 8);
    slopes_.set(a_.alibi_slopes, layout_, offset);
    sinks_.set(a_.sinks, layout_, offset);
    std::vector<std::int32_t> lengths = a_.kv_lengths, kv_starts(starts_.begin(), starts_.end());
    if (key_padding_ != 0) {
      lengths.clear();
      for (std::size_t b = 0; b < a_.batch && !end_together_; ++b) {
        lengths.push_back(static_cast<std::int32_t>(starts_[b] + a_.keys(b)));
      }
      kv_starts_.set(kv_starts, layout_);
    }
    kv_lengths_.set(lengths, layout_);
    if (query_padding_ != 0) {
      q_starts_.set(std::vector(a_.batch, static_cast<std::int32_t>(query_padding_)), layout_);
    }
    const auto set_offsets = [&](Array<std::int32_t> &array, const std::vector<std::size_t> &first) {
      const std::vector<std::int32_t> values(first.begin(), first.end());
      array.set(values, layout_);
    };
    if (how_.q_offsets) set_offsets(q_offsets_, q_first_);
    if (how_.kv_offsets) set_offsets(kv_offsets_, kv_first_);
  }

  // f64 has no bias of 16 bits.
  bool has_half_bias() const { return problem_.options.half_bias && sizeof(A) == sizeof(float); }
  // Memory has what the factors of heads have not yet multiplied.
  void place_bias(std::size_t offset) {
    if (a_.bias.empty()) return;
    std::vector<A> numbers = a_.bias, slopes;
    if (problem_.options.bias_slopes) {
      const std::size_t head = (a_.bias_repeats.token ? 1 : a_.q_len) * a_.kv_len;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<A>(numbers[i] / static_cast<A>(bias_slope(i / head % a_.q_heads)));
      for (std::size_t h = 0; h < a_.q_heads; ++h) slopes.push_back(static_cast<A>(bias_slope(h)));
    }
    bias_slopes_.set(slopes, layout_, offset);
    if (has_half_bias()) {
      std::vector<F16> halves;
      for (const A number : numbers) halves.push_back(F16(static_cast<double>(number)));
      half_bias_ = place_rows<F16>(halves, a_.bias_repeats, true, offset);
    } else {
      bias_ = place_rows<A>(numbers, a_.bias_repeats, true, offset);
    }
  }

  // A row has one value, or one per key.
  template <class U>
  test::Tensor<U> place_rows(const std::vector<U> &values, oracle::Repeats repeats, bool per_key,
                             std::size_t offset) const {
    if (values.empty()) return {};
    const std::size_t row = per_key ? a_.kv_len : 1;
    test::Tensor<U> tensor = rows_tensor<U>(repeats, per_key ? kv_room() : 1, offset);
    for (std::size_t b = 0; b < a_.batch; ++b) {
      const std::size_t first = per_key ? starts_[b] : 0;
      const std::size_t count = per_key ? std::min(row, kv_room() - first) : 1;
      for (std::size_t h = 0; h < a_.q_heads; ++h) {
        for (std::size_t i = 0; i < a_.q_len; ++i) {
          std::copy_n(values.data() + a_.row(repeats, b, h, i) * row, count,
                      tensor.at(b, h, query_padding_ + i) + first);
        }
      }
    }
    tensor.remember();
    return tensor;
  }

  bool kv_slack_ = false, end_together_ = false;
  bool lists_exclude_ = false;  // lists leave out what the mask excludes
  std::vector<std::size_t> q_first_;
  std::vector<std::int32_t> page_of_, token_of_;
  std::size_t pages_ = 0, cache_len_ = 0;
  Numbers query_scales_, k_scales_, v_scales_;
  test::Tensor<std::uint8_t> mask_;
  test::Tensor<F16> half_bias_;
  Array<A> slopes_, sinks_, bias_slopes_;
  Array<std::int32_t> kv_lengths_, q_offsets_, kv_offsets_, block_table_, kv_starts_, q_starts_, key_lists_;
};

}  // namespace rapt::test
