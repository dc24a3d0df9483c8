// The arguments that attention has forwards and backwards: defaults filled in, numbers and arrays checked.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "api/floating_point.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "dispatch/dispatch.hpp"
#include "kernels/attention_call.hpp"

namespace rapt {
namespace {

inline bool all_zero(const rapt_strides &s) { return s.batch == 0 && s.head == 0 && s.token == 0; }

inline rapt_strides contiguous(std::size_t heads, std::size_t tokens, std::size_t row) {
  return {static_cast<std::ptrdiff_t>(heads * tokens * row), static_cast<std::ptrdiff_t>(tokens * row),
          static_cast<std::ptrdiff_t>(row)};
}

// More than any memory holds.
inline bool shape_fits(const rapt_attention_options &o) {
  std::size_t elements = 16;
  const std::size_t dim = o.qk_dim > o.v_dim ? o.qk_dim : o.v_dim;
  const std::size_t len = o.q_len > o.kv_len ? o.q_len : o.kv_len;
  for (const std::size_t count : {o.batch, o.q_heads, len, dim}) {
    if (__builtin_mul_overflow(elements, count > 0 ? count : 1, &elements)) return false;
  }
  return elements <= std::size_t{PTRDIFF_MAX} / 64;
}

// Sequences that share a buffer by offsets, [batch + 1].
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
    // With offsets too, a sequence may use less than lies there, but no more.
    if (o.kv_offsets && o.kv_lengths[b] > o.kv_offsets[b + 1] - o.kv_offsets[b]) return RAPT_BAD_KV_LENGTHS;
  }
  return RAPT_OK;
}

inline rapt_status check_pages(const rapt_attention_options &o) {
  if (o.packed_keys && o.kv_offsets) return RAPT_BAD_PACKED_KEYS;
  if (!o.block_table) return RAPT_OK;
  if (o.kv_offsets || o.page_size == 0 || o.page_size % attention_page_unit != 0) return RAPT_BAD_BLOCK_TABLE;
  if (o.packed_keys && o.page_size % attention_block != 0) return RAPT_BAD_PACKED_KEYS;
  for (std::size_t b = 0; b < o.batch; ++b) {
    const std::size_t length = o.kv_lengths ? static_cast<std::size_t>(o.kv_lengths[b]) : o.kv_len;
    const std::size_t pages = length / o.page_size + (length % o.page_size != 0);
    if (pages > o.block_table_stride) return RAPT_BAD_BLOCK_TABLE;
    for (std::size_t i = 0; i < pages; ++i) {
      if (o.block_table[b * o.block_table_stride + i] < 0) return RAPT_BAD_BLOCK_TABLE;
    }
  }
  return RAPT_OK;
}

// The caller's options with every default filled in; the numbers that can be checked without the arrays are.
inline rapt_status resolve(const rapt_attention_options *given, rapt_attention_options &o) {
  if (!given) return RAPT_BAD_OPTIONS;
  o = RAPT_ATTENTION_OPTIONS_INIT;
  const rapt_status status = read_options(given, o);
  if (status != RAPT_OK) return status;
  if (o.kv_heads == 0) o.kv_heads = o.q_heads;
  if (o.v_dim == 0) o.v_dim = o.qk_dim;
  if (o.kv_heads == 0 ? o.q_heads != 0 : o.q_heads % o.kv_heads != 0) return RAPT_BAD_HEADS;
  if (o.qk_dim == 0 || o.v_dim == 0) return RAPT_BAD_DIM;
  constexpr std::size_t largest_dim = std::size_t{1} << 20;
  if (o.qk_dim > largest_dim || o.v_dim > largest_dim) return RAPT_BAD_DIM;
  if (!shape_fits(o)) return RAPT_BAD_SIZE;
  if (o.causal < RAPT_CAUSAL_NONE || o.causal > RAPT_CAUSAL_OFFSET) return RAPT_BAD_CAUSAL;
  if (o.window_left < -1 || o.window_right < -1) return RAPT_BAD_WINDOW;
  if (!std::isfinite(o.scale)) return RAPT_BAD_SCALE;
  if (!std::isfinite(o.softcap) || o.softcap < 0) return RAPT_BAD_SOFTCAP;
  if (o.block_table && o.block_table_stride == 0 && o.page_size != 0) {
    o.block_table_stride = o.kv_len / o.page_size + (o.kv_len % o.page_size != 0);
  }
  return RAPT_OK;
}

// What depends on the size of the elements: strides, and what memory the arrays cover.
class Arrays {
 public:
  Arrays(AttentionCall &call, std::size_t element_size)
      : call_(call), o_(call.options), element_size_(element_size) {
    const bool packed_queries = o_.q_offsets;
    const std::size_t q_tokens = packed_queries ? static_cast<std::size_t>(o_.q_offsets[o_.batch]) : o_.q_len;
    const std::size_t q_batch = packed_queries ? 1 : o_.batch;
    kv_tokens_ = o_.kv_offsets    ? static_cast<std::size_t>(o_.kv_offsets[o_.batch])
                 : o_.block_table ? o_.page_size
                                  : o_.kv_len;
    kv_batch_ = o_.kv_offsets ? 1 : o_.batch;
    if (o_.block_table) {
      kv_batch_ = 0;
      for (std::size_t b = 0; b < o_.batch; ++b) {
        const std::size_t length = o_.kv_lengths ? static_cast<std::size_t>(o_.kv_lengths[b]) : o_.kv_len;
        for (std::size_t i = 0; i * o_.page_size < length; ++i) {
          const auto page = static_cast<std::size_t>(o_.block_table[b * o_.block_table_stride + i]);
          if (page >= kv_batch_) kv_batch_ = page + 1;
        }
      }
    }
    // Packed keys are rows of whole blocks, one a head.
    const std::size_t blocks = (kv_tokens_ + attention_block - 1) / attention_block;
    k_row_ = o_.packed_keys ? blocks * attention_block * o_.qk_dim : o_.qk_dim;
    k_rows_ = o_.packed_keys ? 1 : kv_tokens_;
    if (all_zero(o_.q_strides)) o_.q_strides = contiguous(o_.q_heads, q_tokens, o_.qk_dim);
    if (all_zero(o_.k_strides)) o_.k_strides = contiguous(o_.kv_heads, k_rows_, k_row_);
    if (all_zero(o_.v_strides)) o_.v_strides = contiguous(o_.kv_heads, kv_tokens_, o_.v_dim);
    if (all_zero(o_.out_strides)) o_.out_strides = contiguous(o_.q_heads, q_tokens, o_.v_dim);
    if (all_zero(o_.lse_strides)) o_.lse_strides = contiguous(o_.q_heads, q_tokens, 1);
    q_tokens_ = q_tokens;
    q_batch_ = q_batch;
  }

  // The tensors that are read. Those that are not there cover nothing.
  struct Inputs {
    Strided q, k, v, bias, mask, scales;
  };
  Inputs inputs() const {
    return {queries(call_.q, o_.q_strides, o_.qk_dim),
            {call_.k, o_.k_strides, call_.k ? kv_batch_ : 0, o_.kv_heads, k_rows_, k_row_, element_size_},
            keys(call_.v, o_.v_strides, o_.v_dim),
            own(o_.bias, o_.bias_strides, o_.kv_len, element_size_),
            own(o_.mask, o_.mask_strides, o_.kv_len, 1),
            own(o_.query_scales, o_.query_scale_strides, 1, element_size_)};
  }
  rapt_status check_inputs(Inputs &in) const {
    if (in.q.any_negative()) return RAPT_BAD_Q_STRIDES;
    if (in.k.any_negative()) return RAPT_BAD_K_STRIDES;
    if (in.v.any_negative()) return RAPT_BAD_V_STRIDES;
    if (in.bias.any_negative()) return RAPT_BAD_BIAS_STRIDES;
    if (in.mask.any_negative()) return RAPT_BAD_MASK_STRIDES;
    if (in.scales.any_negative()) return RAPT_BAD_QUERY_SCALES;
    for (Strided *tensor : {&in.q, &in.k, &in.v, &in.bias, &in.mask, &in.scales}) {
      if (!tensor->measure()) return RAPT_BAD_SIZE;
    }
    return RAPT_OK;
  }

  // Rows apart from each other, and from everything that is read.
  rapt_status check_output(const Inputs &in, Strided &output, rapt_status bad_strides,
                           bool may_be_q = false) const {
    if (output.any_negative() || !output.measure() || !output.rows_are_apart()) return bad_strides;
    return check_overlap(in, output, may_be_q);
  }
  rapt_status check_overlap(const Inputs &in, const Strided &output, bool may_be_q = false) const {
    const bool overlaps_q = output.overlaps(in.q) && !(may_be_q && output.is_exactly(in.q));
    if (overlaps_q || output.overlaps(in.k) || output.overlaps(in.v) || output.overlaps(in.bias) ||
        output.overlaps(in.mask) || output.overlaps(in.scales) ||
        overlaps(output, o_.alibi_slopes, o_.q_heads * element_size_) ||
        overlaps(output, o_.sinks, o_.q_heads * element_size_) ||
        overlaps(output, o_.kv_lengths, o_.batch * sizeof(std::int32_t)) ||
        overlaps(output, o_.q_offsets, (o_.batch + 1) * sizeof(std::int32_t)) ||
        overlaps(output, o_.kv_offsets, (o_.batch + 1) * sizeof(std::int32_t)) ||
        overlaps(output, o_.block_table, o_.batch * o_.block_table_stride * sizeof(std::int32_t))) {
      return RAPT_BAD_OVERLAP;
    }
    return RAPT_OK;
  }

  static bool overlaps(const Strided &output, const void *data, std::size_t bytes) {
    return data && output.overlaps(data, bytes);
  }
  // Tensors of queries, which q_offsets pack, and those of which every sequence has its own.
  Strided queries(const void *data, const rapt_strides &s, std::size_t row) const {
    return {data, s, data ? q_batch_ : 0, o_.q_heads, q_tokens_, row, element_size_};
  }
  Strided own(const void *data, const rapt_strides &s, std::size_t row, std::size_t size) const {
    return {data, s, data ? o_.batch : 0, o_.q_heads, o_.q_len, row, size};
  }
  Strided keys(const void *data, const rapt_strides &s, std::size_t row) const {
    return {data, s, data ? kv_batch_ : 0, o_.kv_heads, kv_tokens_, row, element_size_};
  }
  std::size_t q_tokens() const { return q_tokens_; }
  std::size_t kv_tokens() const { return kv_tokens_; }

 private:
  AttentionCall &call_;
  rapt_attention_options &o_;
  std::size_t element_size_;
  std::size_t q_tokens_, q_batch_, kv_tokens_, kv_batch_, k_row_, k_rows_;
};

inline bool any_queries(const rapt_attention_options &o) {
  return o.batch > 0 && o.q_heads > 0 && o.q_len > 0;
}

struct Tasks {
  std::size_t first;
  std::size_t last;
  bool all = false;  // first and last are not set

  // Whether these are among `count`; all are then from first to last.
  bool fit(std::size_t count) {
    if (all) last = count;
    return first <= last && last <= count;
  }
};
inline constexpr Tasks all_tasks{0, 0, true};

struct Workspace {
  void *data;
  std::size_t size;
};
inline void *aligned(const Workspace &workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data);
  return static_cast<char *>(workspace.data) + (0 - address) % attention_workspace_alignment;
}

// Elements of workspace of a call, forwards or backwards.
using WorkspaceLength = std::size_t (*)(std::size_t qk_dim, std::size_t v_dim);

inline std::size_t workspace_bytes(WorkspaceLength length, const rapt_attention_options &o,
                                   std::size_t element_size) {
  return length(o.qk_dim, o.v_dim) * element_size + attention_workspace_alignment;
}

inline rapt_status workspace_bytes_of(WorkspaceLength length, const rapt_attention_options *given,
                                      std::size_t element_size, std::size_t *bytes) {
  rapt_attention_options o;
  const rapt_status status = resolve(given, o);
  if (status != RAPT_OK) return status;
  if (!bytes) return RAPT_BAD_OUT;
  *bytes = workspace_bytes(length, o, element_size);
  return RAPT_OK;
}

using AttentionKernel = void (*KernelTable::*)(const AttentionCall *, std::size_t, std::size_t, void *);

// All has been checked. From here on a double's own mode: a subnormal scale is 0 to a caller who has DAZ set.
inline void run_tasks(AttentionKernel kernel, AttentionCall &call, const Tasks &tasks,
                      const Workspace &workspace) {
  in_default_mode([&] {
    if (call.options.scale == 0) call.options.scale = 1 / std::sqrt(static_cast<double>(call.options.qk_dim));
    (kernels().*kernel)(&call, tasks.first, tasks.last, aligned(workspace));
  });
}

}  // namespace
}  // namespace rapt
