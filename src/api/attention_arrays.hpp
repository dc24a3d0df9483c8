// Resolves the strides of an attention call's arrays, measures the memory that is read and written, and
// refuses overlap. Memory past a sequence's length does not count, because it may hold other data. Memory before a
// sequence's start counts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/attention_options.hpp"
#include "api/strided.hpp"
#include "call/element.hpp"

namespace rapt {
namespace {

class Arrays {
 public:
  // The lengths, offsets and pages of `call` must have been checked.
  explicit Arrays(AttentionCall &call) : call_(call), o_(call.options), number_size_(number_size(o_.q_type)) {
    queries_ = tokens_of(o_.q_offsets, o_.q_len);
    keys_ = o_.block_table ? Reach::of_all(0, o_.page_size)
            : o_.key_lists ? Reach::of_all(o_.batch, o_.cache_len)
                           : tokens_of(o_.kv_offsets, o_.kv_len);
    for (std::size_t b = 0; b < o_.batch; ++b) {
      const std::size_t queries = tokens_of_sequence(o_.q_offsets, o_.q_len, b);
      const std::size_t keys = o_.kv_lengths ? static_cast<std::size_t>(o_.kv_lengths[b])
                                             : tokens_of_sequence(o_.kv_offsets, o_.kv_len, b);
      const std::size_t start = o_.kv_starts ? static_cast<std::size_t>(o_.kv_starts[b]) : 0;
      rows_.cover(b, queries);
      if (o_.block_table) cover_pages(b, start, keys, queries > 0);
      if (queries == 0 || keys == start) continue;
      rows_with_keys_.cover(b, queries);
      columns_of_last_ = keys;
      if (keys > columns_) columns_ = keys;
      if (o_.kv_offsets) {
        cover_packed(b, keys);
      } else if (o_.key_lists) {
        read_keys_.cover(b, o_.cache_len);
        lists_.cover(b, (queries - 1) / call.queries_per_list() + 1);
      } else if (!o_.block_table) {
        read_keys_.cover(b, keys);
      }
    }
  }

  // These functions return the shapes for which strides are resolved. A row has `row` elements.
  Dims queries(std::size_t row) const {
    return {queries_.end, o_.q_heads, queries_.first_token + queries_.tokens, row, o_.q_offsets == nullptr};
  }
  Dims keys(std::size_t row) const {
    return {keys_.end, o_.kv_heads, keys_.first_token + keys_.tokens, row, o_.kv_offsets == nullptr};
  }

  // Resolves the strides of the tensors that forward and backward calls share. Those of RAPT_I4 count numbers before
  // and bytes afterwards.
  rapt_status resolve_common() {
    const auto stride_row = [](rapt_type type, std::size_t dim) {
      return type == RAPT_I4 ? dim : row_length(type, dim);
    };
    Dims k_dims = keys(stride_row(o_.kv_type, o_.qk_dim));
    if (o_.packed_keys) {
      if (__builtin_mul_overflow(blocks_of(keys_.tokens), attention_block * o_.qk_dim, &k_dims.row)) {
        return RAPT_BAD_SIZE;
      }
      k_dims.tokens = 1;
      k_dims.has_tokens = false;
    }
    rapt_status status = input(o_.q_strides, queries(o_.qk_dim), RAPT_BAD_Q_STRIDES);
    if (status == RAPT_OK) status = input(o_.k_strides, k_dims, RAPT_BAD_K_STRIDES);
    if (status == RAPT_OK)
      status = input(o_.v_strides, keys(stride_row(o_.v_type, o_.v_dim)), RAPT_BAD_V_STRIDES);
    if (status == RAPT_OK) status = output(o_.out_strides, queries(o_.v_dim), RAPT_BAD_OUT_STRIDES);
    if (status == RAPT_OK) status = resolve_kv_scales();
    if (status != RAPT_OK) return status;
    if (!o_.lse) return all_zero(o_.lse_strides) ? RAPT_OK : RAPT_BAD_LSE_STRIDES;
    return output(o_.lse_strides, queries(1), RAPT_BAD_LSE_STRIDES);
  }
  // Sets the strides of the scales of keys and values. Element i of k has its scale at k_scales[i / elements
  // per scale], so the strides of k are divided by that number. Packed keys have their scales token by token,
  // like other keys.
  rapt_status resolve_kv_scales() {
    const bool has_k_scales = has_scales(o_.kv_type), has_v_scales = has_scales(o_.v_type);
    if ((!has_k_scales && !has_v_scales) || call_.stage == AttentionStage::merge) return RAPT_OK;
    const std::size_t k_group = scale_group_of(o_, o_.qk_dim);
    // If v is k, the values are parts of the keys' rows and use the keys' scales.
    const bool v_is_k = call_.v == call_.k && has_k_scales;
    const std::size_t v_group = v_is_k ? k_group : scale_group_of(o_, o_.v_dim);
    if (has_k_scales && !divide(o_.k_strides, k_group, call_.k_scale_strides)) return RAPT_BAD_K_STRIDES;
    if (has_v_scales && !divide(o_.v_strides, v_group, call_.v_scale_strides)) return RAPT_BAD_V_STRIDES;
    if (o_.packed_keys) call_.k_scale_strides.token = static_cast<std::ptrdiff_t>(o_.qk_dim / k_group);
    // A group has whole bytes.
    if (o_.kv_type == RAPT_I4) divide(o_.k_strides, 2, o_.k_strides);
    if (o_.v_type == RAPT_I4) divide(o_.v_strides, 2, o_.v_strides);
    return RAPT_OK;
  }
  static rapt_status input(rapt_strides &strides, const Dims &dims, rapt_status bad) {
    return resolve_strides(strides, dims, MayRepeat::yes, bad);
  }
  static rapt_status output(rapt_strides &strides, const Dims &dims, rapt_status bad) {
    return resolve_strides(strides, dims, MayRepeat::no, bad);
  }

  // These functions return the memory of a tensor that has the shape of all queries, of all keys, or of
  // dbias. A null array covers nothing.
  Strided of_queries(const void *data, const rapt_strides &strides, std::size_t row, std::size_t size) const {
    return {data, strides, queries_, o_.q_heads, row, row, size};
  }
  Strided of_keys(const void *data, const rapt_strides &strides, std::size_t row, std::size_t size) const {
    return {data, strides, keys_, o_.kv_heads, row, row, size};
  }
  Strided of_bias(const void *data) const {
    return {data,      o_.bias_strides, Reach::of_all(o_.batch, o_.q_len), o_.q_heads, o_.kv_len,
            o_.kv_len, number_size_};
  }
  Strided lse() const { return of_queries(o_.lse, o_.lse_strides, 1, number_size_); }

  // Holds the memory that a call reads. Only arrays that are given and not empty are in `others`, so that a
  // short call does not pay for the options that it lacks.
  struct Inputs {
    Strided q;
    // Only the first `count` are set. Clearing all of them would cost a call with one key 3 % of its time.
    Strided others[18];
    std::size_t count = 0;

    explicit Inputs(const Strided &queries) : q(queries) {}

    void add(const Strided &tensor) {
      if (!tensor.is_empty()) others[count++] = tensor;
    }
    // See Strided::measure().
    bool measure() {
      bool all = q.measure();
      for (std::size_t i = 0; i < count; ++i) all = others[i].measure() && all;
      return all;
    }
  };
  Inputs inputs() const {
    Inputs in(of_queries(call_.q, o_.q_strides, o_.qk_dim, size_of(o_.q_type)));
    if (call_.stage != AttentionStage::merge) add_keys_and_scores(in);
    if (o_.query_scales) {
      in.add({o_.query_scales, o_.query_scale_strides, rows_, o_.q_heads, 1, 1, number_size_});
    }
    const auto add_array = [&](const void *data, std::size_t count, std::size_t size) {
      if (data) in.add({data, count * size, 1});
    };
    add_array(o_.alibi_slopes, o_.q_heads, number_size_);
    add_array(o_.bias_slopes, o_.q_heads, number_size_);
    add_array(o_.sinks, o_.q_heads, number_size_);
    add_array(o_.kv_lengths, o_.batch, sizeof(std::int32_t));
    add_array(o_.kv_starts, o_.batch, sizeof(std::int32_t));
    add_array(o_.q_starts, o_.batch, sizeof(std::int32_t));
    add_array(o_.q_offsets, o_.batch + 1, sizeof(std::int32_t));
    add_array(o_.kv_offsets, o_.batch + 1, sizeof(std::int32_t));
    add_array(o_.block_table, end_of_table_, sizeof(std::int32_t));
    return in;
  }

  // Checks that the rows of an output overlap neither each other nor any input.
  rapt_status check_output(const Inputs &in, Strided &output, rapt_status bad_strides,
                           bool may_be_q = false) const {
    if (!output.measure() || !output.rows_are_apart()) return bad_strides;
    return check_overlap(in, output, may_be_q);
  }
  rapt_status check_overlap(const Inputs &in, const Strided &output, bool may_be_q = false) const {
    const bool is_q = may_be_q && output.is_exactly(in.q);
    if (!is_q && output.overlaps(in.q)) return RAPT_BAD_OVERLAP;
    for (std::size_t i = 0; i < in.count; ++i) {
      if (output.overlaps(in.others[i])) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }
  // Checks that the workspace overlaps neither an input nor one of `others`.
  rapt_status check_workspace(const Inputs &in, const Strided &workspace,
                              std::initializer_list<const Strided *> others) const {
    for (const Strided *other : others) {
      if (workspace.overlaps(*other)) return RAPT_BAD_WORKSPACE;
    }
    return check_overlap(in, workspace) == RAPT_OK ? RAPT_OK : RAPT_BAD_WORKSPACE;
  }

 private:
  void add_keys_and_scores(Inputs &in) const {
    const auto add_tokens = [&](const void *data, const rapt_strides &strides, std::size_t row,
                                std::size_t size) {
      in.add({data, strides, read_keys_, o_.kv_heads, row, row, size});
    };
    if (o_.packed_keys) {
      in.add(packed_keys());
    } else {
      add_tokens(call_.k, o_.k_strides, row_length(o_.kv_type, o_.qk_dim), size_of(o_.kv_type));
    }
    add_tokens(call_.v, o_.v_strides, row_length(o_.v_type, o_.v_dim), size_of(o_.v_type));
    const auto add_scales = [&](const float *data, const rapt_strides &strides, std::size_t dim) {
      if (data) add_tokens(data, strides, dim / scale_group_of(o_, dim), sizeof(float));
    };
    add_scales(o_.k_scales, call_.k_scale_strides, o_.qk_dim);
    add_scales(o_.v_scales, call_.v_scale_strides, o_.v_dim);
    const auto add_columns = [&](const void *data, const rapt_strides &strides, std::size_t size) {
      if (data) in.add({data, strides, rows_with_keys_, o_.q_heads, columns_, columns_of_last_, size});
    };
    add_columns(o_.bias, o_.bias_strides, size_of(o_.bias_type));
    add_columns(o_.mask, o_.mask_strides, 1);
    const auto add_lists = [&](const std::int32_t *data, const rapt_strides &strides, std::size_t row) {
      if (data) in.add({data, strides, lists_, o_.kv_heads, row, row, sizeof(std::int32_t)});
    };
    add_lists(o_.key_lists, o_.key_list_strides, o_.kv_len);
    add_lists(o_.key_list_lengths, o_.key_list_length_strides, 1);
  }

  static std::size_t tokens_of_sequence(const std::int32_t *offsets, std::size_t len, std::size_t b) {
    return offsets ? static_cast<std::size_t>(offsets[b + 1] - offsets[b]) : len;
  }
  // Packed sequences count as one item of the batch.
  Reach tokens_of(const std::int32_t *offsets, std::size_t len) const {
    if (!offsets) return Reach::of_all(o_.batch, len);
    const auto first = static_cast<std::size_t>(offsets[0]);
    return Reach::of_all(1, static_cast<std::size_t>(offsets[o_.batch]) - first, first);
  }
  void cover_packed(std::size_t b, std::size_t keys) {
    const auto first = static_cast<std::size_t>(o_.kv_offsets[b]);
    if (read_keys_.tokens == 0) read_keys_ = Reach::of_all(1, 0, first);
    read_keys_.tokens = read_keys_.tokens_of_last = first + keys - read_keys_.first_token;
  }
  // Adds the pages of a sequence to the memory that is read. Pages of a sequence without queries are not
  // read, and only extend the tensor for which strides are resolved. The table must have been checked.
  void cover_pages(std::size_t b, std::size_t start, std::size_t keys, bool are_read) {
    const std::size_t begin = b * o_.block_table_stride;
    for (std::size_t i = start / o_.page_size; i * o_.page_size < keys && start < keys; ++i) {
      const auto page = static_cast<std::size_t>(o_.block_table[begin + i]);
      const std::size_t left = keys - i * o_.page_size;
      if (page >= keys_.end) keys_.end = page + 1;
      if (are_read) read_keys_.cover(page, left < o_.page_size ? left : o_.page_size);
      end_of_table_ = begin + i + 1;
    }
  }

  static std::size_t blocks_of(std::size_t tokens) {
    return tokens / attention_block + (tokens % attention_block != 0);
  }
  // Packed keys have one row per head. Their blocks are read as a whole.
  Strided packed_keys() const {
    Reach reach = read_keys_;
    const auto row = [&](std::size_t tokens) { return blocks_of(tokens) * attention_block * o_.qk_dim; };
    const std::size_t most = row(reach.tokens), last = row(reach.tokens_of_last);
    if (reach.tokens > 0) reach.tokens = reach.tokens_of_last = 1;
    return {call_.k, o_.k_strides, reach, o_.kv_heads, most, last, size_of(o_.kv_type)};
  }

  // Divides the strides by `count`. Returns false if a stride is not a multiple of `count`.
  static bool divide(const rapt_strides &strides, std::size_t count, rapt_strides &quotient) {
    const auto divisor = static_cast<std::ptrdiff_t>(count);
    quotient = {strides.batch / divisor, strides.head / divisor, strides.token / divisor};
    return strides.batch % divisor == 0 && strides.head % divisor == 0 && strides.token % divisor == 0;
  }
  AttentionCall &call_;
  rapt_attention_options &o_;
  std::size_t number_size_;
  Reach queries_, keys_;                           // all queries; all keys
  Reach read_keys_;                                // keys of sequences with queries
  Reach rows_, rows_with_keys_;                    // rows of query scales; rows of bias and mask
  Reach lists_;                                    // lists of keys
  std::size_t columns_ = 0, columns_of_last_ = 0;  // keys in bias and mask: the most, and the last sequence's
  std::size_t end_of_table_ = 0;
};

}  // namespace
}  // namespace rapt
