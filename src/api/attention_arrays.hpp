// The arrays of a call of attention as memory: resolves strides, measures extents, refuses overlap.
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
  // The lengths, offsets and pages of `call` are checked.
  explicit Arrays(AttentionCall &call)
      : call_(call), o_(call.options), number_size_(o_.q_type == RAPT_F64 ? sizeof(double) : sizeof(float)) {
    queries_.tokens = o_.q_offsets ? static_cast<std::size_t>(o_.q_offsets[o_.batch]) : o_.q_len;
    queries_.batch = o_.q_offsets ? 1 : o_.batch;
    keys_.tokens = o_.kv_offsets    ? static_cast<std::size_t>(o_.kv_offsets[o_.batch])
                   : o_.block_table ? o_.page_size
                                    : o_.kv_len;
    keys_.batch = o_.kv_offsets ? 1 : o_.batch;
    if (o_.block_table) {
      keys_.batch = 0;
      for_each_page(o_, [&](std::int32_t page) {
        if (static_cast<std::size_t>(page) >= keys_.batch) keys_.batch = static_cast<std::size_t>(page) + 1;
        return true;
      });
    }
  }

  Dims queries(std::size_t row) const {
    return {queries_.batch, o_.q_heads, queries_.tokens, row, o_.q_offsets == nullptr};
  }
  Dims keys(std::size_t row) const {
    return {keys_.batch, o_.kv_heads, keys_.tokens, row, o_.kv_offsets == nullptr};
  }

  // The strides of the tensors that forward and backward calls share.
  rapt_status resolve_common() {
    // Packed keys: per head one row of whole blocks.
    k_dims_ = keys(o_.qk_dim);
    if (o_.packed_keys) {
      const std::size_t blocks = keys_.tokens / attention_block + (keys_.tokens % attention_block != 0);
      if (__builtin_mul_overflow(blocks, attention_block * o_.qk_dim, &k_dims_.row)) return RAPT_BAD_SIZE;
      k_dims_.tokens = 1;
      k_dims_.has_tokens = false;
    }
    rapt_status status = input(o_.q_strides, queries(o_.qk_dim), RAPT_BAD_Q_STRIDES);
    if (status == RAPT_OK) status = input(o_.k_strides, k_dims_, RAPT_BAD_K_STRIDES);
    if (status == RAPT_OK) status = input(o_.v_strides, keys(o_.v_dim), RAPT_BAD_V_STRIDES);
    if (status == RAPT_OK) status = output(o_.out_strides, queries(o_.v_dim), RAPT_BAD_OUT_STRIDES);
    if (status == RAPT_OK) status = resolve_kv_scales();
    if (status != RAPT_OK) return status;
    if (!o_.lse) return all_zero(o_.lse_strides) ? RAPT_OK : RAPT_BAD_LSE_STRIDES;
    return output(o_.lse_strides, queries(1), RAPT_BAD_LSE_STRIDES);
  }
  // The scale of the element at index i of k's memory, counted from k, is k_scales[i / elements per scale]. A
  // block of packed keys has as many scales, token by token.
  rapt_status resolve_kv_scales() {
    if (o_.kv_type != RAPT_I8 || call_.stage == AttentionStage::merge) return RAPT_OK;
    const std::size_t k_group = scale_group_of(o_, o_.qk_dim);
    // Values that are a part of the keys' rows have the keys' scales, one per row.
    const std::size_t v_group = call_.v == call_.k ? k_group : scale_group_of(o_, o_.v_dim);
    if (!divide(o_.k_strides, k_group, call_.k_scale_strides)) return RAPT_BAD_K_STRIDES;
    if (!divide(o_.v_strides, v_group, call_.v_scale_strides)) return RAPT_BAD_V_STRIDES;
    if (o_.packed_keys) call_.k_scale_strides.token = static_cast<std::ptrdiff_t>(o_.qk_dim / k_group);
    return RAPT_OK;
  }
  static rapt_status input(rapt_strides &strides, const Dims &dims, rapt_status bad) {
    return resolve_strides(strides, dims, MayRepeat::yes, bad);
  }
  static rapt_status output(rapt_strides &strides, const Dims &dims, rapt_status bad) {
    return resolve_strides(strides, dims, MayRepeat::no, bad);
  }

  // A null array covers nothing.
  Strided memory(const void *data, const rapt_strides &strides, Dims dims, std::size_t size) const {
    if (!data) dims.batch = 0;
    return {data, strides, dims.batch, dims.heads, dims.tokens, dims.row, size};
  }
  Strided elements(rapt_type type, const void *data, const rapt_strides &strides, const Dims &dims) const {
    return memory(data, strides, dims, size_of(type));
  }
  // Of the arithmetic type.
  Strided numbers(const void *data, const rapt_strides &strides, const Dims &dims) const {
    return memory(data, strides, dims, number_size_);
  }
  // bias, mask and query scales keep their batch dimension for packed sequences.
  Dims own(std::size_t row) const { return {o_.batch, o_.q_heads, o_.q_len, row}; }

  // The tensors that a call reads.
  struct Inputs {
    Strided q, k, v, bias, mask, scales, k_scales, v_scales;
  };
  Inputs inputs() const {
    return {elements(o_.q_type, call_.q, o_.q_strides, queries(o_.qk_dim)),
            elements(o_.kv_type, call_.k, o_.k_strides, k_dims_),
            elements(o_.kv_type, call_.v, o_.v_strides, keys(o_.v_dim)),
            numbers(o_.bias, o_.bias_strides, own(o_.kv_len)),
            memory(o_.mask, o_.mask_strides, own(o_.kv_len), 1),
            numbers(o_.query_scales, o_.query_scale_strides, own(1)),
            kv_scales(o_.k_scales, call_.k_scale_strides, o_.qk_dim),
            kv_scales(o_.v_scales, call_.v_scale_strides, o_.v_dim)};
  }
  static bool measure(Inputs &in) {
    for (Strided *tensor :
         {&in.q, &in.k, &in.v, &in.bias, &in.mask, &in.scales, &in.k_scales, &in.v_scales}) {
      if (!tensor->measure()) return false;
    }
    return true;
  }

  // The rows of an output are apart from each other and from every input.
  rapt_status check_output(const Inputs &in, Strided &output, rapt_status bad_strides,
                           bool may_be_q = false) const {
    if (!output.measure() || !output.rows_are_apart()) return bad_strides;
    return check_overlap(in, output, may_be_q);
  }
  rapt_status check_overlap(const Inputs &in, const Strided &output, bool may_be_q = false) const {
    const bool is_q = may_be_q && output.is_exactly(in.q);
    if (!is_q && output.overlaps(in.q)) return RAPT_BAD_OVERLAP;
    for (const Strided *input : {&in.k, &in.v, &in.bias, &in.mask, &in.scales, &in.k_scales, &in.v_scales}) {
      if (output.overlaps(*input)) return RAPT_BAD_OVERLAP;
    }
    const struct {
      const void *data;
      std::size_t bytes;
    } arrays[] = {{o_.alibi_slopes, o_.q_heads * number_size_},
                  {o_.sinks, o_.q_heads * number_size_},
                  {o_.kv_lengths, o_.batch * sizeof(std::int32_t)},
                  {o_.q_offsets, (o_.batch + 1) * sizeof(std::int32_t)},
                  {o_.kv_offsets, (o_.batch + 1) * sizeof(std::int32_t)},
                  {o_.block_table, o_.batch * o_.block_table_stride * sizeof(std::int32_t)}};
    for (const auto &array : arrays) {
      if (overlaps(output, array.data, array.bytes)) return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }
  static bool overlaps(const Strided &output, const void *data, std::size_t bytes) {
    return data && output.overlaps(data, bytes);
  }

 private:
  // False if a stride is no multiple of `count`.
  static bool divide(const rapt_strides &strides, std::size_t count, rapt_strides &quotient) {
    const auto divisor = static_cast<std::ptrdiff_t>(count);
    quotient = {strides.batch / divisor, strides.head / divisor, strides.token / divisor};
    return strides.batch % divisor == 0 && strides.head % divisor == 0 && strides.token % divisor == 0;
  }
  Strided kv_scales(const float *data, const rapt_strides &strides, std::size_t dim) const {
    return memory(data, strides, keys(dim / scale_group_of(o_, dim)), sizeof(float));
  }

  AttentionCall &call_;
  rapt_attention_options &o_;
  std::size_t number_size_;
  struct {
    std::size_t batch, tokens;
  } queries_, keys_;
  Dims k_dims_{};
};

}  // namespace
}  // namespace rapt
