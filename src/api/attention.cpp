// attention: the arguments are checked here, once a call, before anything is written.
#include <cmath>

#include "api/floating_point.hpp"
#include "api/read_options.hpp"
#include "api/strided.hpp"
#include "dispatch/dispatch.hpp"
#include "kernels/attention_call.hpp"

namespace rapt {
namespace {

bool all_zero(const rapt_strides &s) { return s.batch == 0 && s.head == 0 && s.token == 0; }

rapt_strides contiguous(std::size_t heads, std::size_t tokens, std::size_t row) {
  return {static_cast<std::ptrdiff_t>(heads * tokens * row), static_cast<std::ptrdiff_t>(tokens * row),
          static_cast<std::ptrdiff_t>(row)};
}

// More than any memory holds.
bool shape_fits(const rapt_attention_options &o) {
  std::size_t elements = 16;
  const std::size_t dim = o.qk_dim > o.v_dim ? o.qk_dim : o.v_dim;
  const std::size_t len = o.q_len > o.kv_len ? o.q_len : o.kv_len;
  for (const std::size_t count : {o.batch, o.q_heads, len, dim}) {
    if (__builtin_mul_overflow(elements, count > 0 ? count : 1, &elements)) return false;
  }
  return elements <= std::size_t{PTRDIFF_MAX} / 64;
}

// Sequences that share a buffer by offsets, [batch + 1].
rapt_status check_offsets(const std::int32_t *offsets, std::size_t batch, std::size_t longest) {
  if (!offsets) return RAPT_OK;
  if (offsets[0] < 0) return RAPT_BAD_OFFSETS;
  for (std::size_t b = 0; b < batch; ++b) {
    if (offsets[b + 1] < offsets[b]) return RAPT_BAD_OFFSETS;
    if (static_cast<std::size_t>(offsets[b + 1] - offsets[b]) > longest) return RAPT_BAD_OFFSETS;
  }
  return RAPT_OK;
}

rapt_status check_lengths(const rapt_attention_options &o) {
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

rapt_status check_pages(const rapt_attention_options &o) {
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
rapt_status resolve(const rapt_attention_options *given, rapt_attention_options &o) {
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

  rapt_status check() const {
    Strided q = queries(call_.q, o_.q_strides, o_.qk_dim, element_size_);
    Strided k(call_.k, o_.k_strides, kv_batch_, o_.kv_heads, k_rows_, k_row_, element_size_);
    Strided v(call_.v, o_.v_strides, kv_batch_, o_.kv_heads, kv_tokens_, o_.v_dim, element_size_);
    if (call_.q && q.any_negative()) return RAPT_BAD_Q_STRIDES;
    if (call_.k && k.any_negative()) return RAPT_BAD_K_STRIDES;
    if (call_.v && v.any_negative()) return RAPT_BAD_V_STRIDES;
    if (!q.measure() || !k.measure() || !v.measure()) return RAPT_BAD_SIZE;
    Strided bias = queries_own(o_.bias, o_.bias_strides, o_.kv_len, element_size_);
    Strided mask = queries_own(o_.mask, o_.mask_strides, o_.kv_len, 1);
    Strided scales = queries_own(o_.query_scales, o_.query_scale_strides, 1, element_size_);
    if (o_.bias && bias.any_negative()) return RAPT_BAD_BIAS_STRIDES;
    if (o_.mask && mask.any_negative()) return RAPT_BAD_MASK_STRIDES;
    if (o_.query_scales && scales.any_negative()) return RAPT_BAD_QUERY_SCALES;
    if (!bias.measure() || !mask.measure() || !scales.measure()) return RAPT_BAD_SIZE;

    const auto check_output = [&](Strided &output, rapt_status bad_strides, bool may_be_q) {
      if (output.any_negative() || !output.measure() || !output.rows_are_apart()) return bad_strides;
      if (call_.q && output.overlaps(q) && !(may_be_q && output.is_exactly(q))) return RAPT_BAD_OVERLAP;
      if ((call_.k && output.overlaps(k)) || (call_.v && output.overlaps(v)) ||
          (call_.partials && call_.out && output.overlaps(call_.partials, partials_bytes())) ||
          (o_.bias && output.overlaps(bias)) || (o_.mask && output.overlaps(mask)) ||
          (o_.query_scales && output.overlaps(scales)) ||
          overlaps(output, o_.alibi_slopes, o_.q_heads * element_size_) ||
          overlaps(output, o_.sinks, o_.q_heads * element_size_) ||
          overlaps(output, o_.kv_lengths, o_.batch * sizeof(std::int32_t)) ||
          overlaps(output, o_.q_offsets, (o_.batch + 1) * sizeof(std::int32_t)) ||
          overlaps(output, o_.kv_offsets, (o_.batch + 1) * sizeof(std::int32_t)) ||
          overlaps(output, o_.block_table, o_.batch * o_.block_table_stride * sizeof(std::int32_t))) {
        return RAPT_BAD_OVERLAP;
      }
      return RAPT_OK;
    };
    if (!call_.out) {
      Strided partials(call_.partials, {0, 0, 0}, 1, 1, 1, partials_bytes(), 1);
      return check_output(partials, RAPT_BAD_SIZE, false);
    }
    Strided out = queries(call_.out, o_.out_strides, o_.v_dim, element_size_);
    rapt_status status = check_output(out, RAPT_BAD_OUT_STRIDES, true);
    if (status == RAPT_OK && o_.lse) {
      Strided lse = queries(o_.lse, o_.lse_strides, 1, element_size_);
      status = check_output(lse, RAPT_BAD_LSE_STRIDES, false);
      if (status == RAPT_OK && lse.overlaps(out)) status = RAPT_BAD_OVERLAP;
    }
    return status;
  }

 private:
  static bool overlaps(const Strided &output, const void *data, std::size_t bytes) {
    return data && output.overlaps(data, bytes);
  }
  // Tensors that q_offsets pack, and those that have every sequence's own.
  Strided queries(const void *data, const rapt_strides &s, std::size_t row, std::size_t size) const {
    return {data, s, q_batch_, o_.q_heads, q_tokens_, row, size};
  }
  Strided queries_own(const void *data, const rapt_strides &s, std::size_t row, std::size_t size) const {
    return {data, s, data ? o_.batch : 0, o_.q_heads, o_.q_len, row, size};
  }
  std::size_t partials_bytes() const {
    return o_.batch * o_.q_heads * o_.q_len * call_.chunks() * (o_.v_dim + 2) * element_size_;
  }

  AttentionCall &call_;
  rapt_attention_options &o_;
  std::size_t element_size_;
  std::size_t q_tokens_, q_batch_, kv_tokens_, kv_batch_, k_row_, k_rows_;
};

bool any_queries(const rapt_attention_options &o) { return o.batch > 0 && o.q_heads > 0 && o.q_len > 0; }

std::size_t workspace_bytes(const rapt_attention_options &o, std::size_t element_size) {
  return attention_workspace_length(o.qk_dim, o.v_dim) * element_size + attention_workspace_alignment;
}

rapt_status workspace_size_of(const rapt_attention_options *given, std::size_t element_size,
                              std::size_t *bytes) {
  rapt_attention_options o;
  const rapt_status status = resolve(given, o);
  if (status != RAPT_OK) return status;
  if (!bytes) return RAPT_BAD_OUT;
  *bytes = workspace_bytes(o, element_size);
  return RAPT_OK;
}

struct Tasks {
  std::size_t first;
  std::size_t last;
  bool all = false;  // first and last are not set
};
constexpr Tasks all_tasks{0, 0, true};

struct Workspace {
  void *data;
  std::size_t size;
};

enum class Stage { whole, partial, merge };

using AttentionKernel = void (*KernelTable::*)(const AttentionCall *, std::size_t, std::size_t, void *);

rapt_status run(AttentionKernel kernel, Stage stage, std::size_t element_size, AttentionCall call,
                const rapt_attention_options *given, Tasks tasks, Workspace workspace) {
  rapt_status status = resolve(given, call.options);
  if (status != RAPT_OK) return status;
  const rapt_attention_options &o = call.options;
  const bool any_work = any_queries(o), any_keys = o.kv_len > 0;
  if (any_work && stage != Stage::merge) {
    if (!call.q) return RAPT_BAD_Q;
    if (any_keys && !call.k) return RAPT_BAD_K;
    if (any_keys && !call.v) return RAPT_BAD_V;
  }
  if (any_work && any_keys && stage != Stage::whole && !call.partials) return RAPT_BAD_PARTIALS;
  if (any_work && stage != Stage::partial && !call.out) return RAPT_BAD_OUT;
  status = check_lengths(o);
  if (status == RAPT_OK) status = check_pages(o);
  if (status != RAPT_OK) return status;
  const std::size_t count = any_work ? call.tiles() * (stage == Stage::partial ? call.chunks() : 1) : 0;
  if (tasks.all) tasks.last = count;
  if (tasks.first > tasks.last || tasks.last > count) return RAPT_BAD_TASKS;
  if (!workspace.data || workspace.size < workspace_bytes(o, element_size)) return RAPT_BAD_WORKSPACE;
  if (!any_work) return RAPT_OK;
  status = Arrays(call, element_size).check();
  if (status != RAPT_OK || tasks.first == tasks.last) return status;

  // From here on a double's own: a subnormal scale is 0 to a caller who has DAZ set.
  in_default_mode([&] {
    if (call.options.scale == 0) call.options.scale = 1 / std::sqrt(static_cast<double>(o.qk_dim));
    const auto address = reinterpret_cast<std::uintptr_t>(workspace.data);
    const std::size_t skip = (0 - address) % attention_workspace_alignment;
    (kernels().*kernel)(&call, tasks.first, tasks.last, static_cast<char *>(workspace.data) + skip);
  });
  return RAPT_OK;
}

// What a task reads of keys is decided by its rows, whatever else their blocks hold.
template <class T>
rapt_status pack_keys(const T *k, std::ptrdiff_t token_stride, std::size_t first, std::size_t tokens,
                      std::size_t qk_dim, T *packed) {
  if (tokens == 0 || qk_dim == 0) return RAPT_OK;
  if (!k) return RAPT_BAD_K;
  if (!packed) return RAPT_BAD_OUT;
  std::size_t end, elements, bytes;
  if (__builtin_add_overflow(first, tokens, &end) || __builtin_add_overflow(end, attention_block - 1, &end) ||
      __builtin_mul_overflow(end / attention_block * attention_block, qk_dim, &elements) ||
      __builtin_mul_overflow(elements, sizeof(T), &bytes) || bytes > std::size_t{PTRDIFF_MAX}) {
    return RAPT_BAD_SIZE;
  }
  Strided keys(k, {0, 0, token_stride}, 1, 1, tokens, qk_dim, sizeof(T));
  if (keys.any_negative()) return RAPT_BAD_K_STRIDES;
  if (!keys.measure()) return RAPT_BAD_SIZE;
  if (keys.overlaps(packed, bytes)) return RAPT_BAD_OVERLAP;
  for (std::size_t i = 0; i < tokens; ++i) {
    const std::size_t t = first + i;
    T *to = packed + t / attention_block * attention_block * qk_dim + t % attention_block;
    const T *from = k + (tokens > 1 ? token_stride * static_cast<std::ptrdiff_t>(i) : 0);
    for (std::size_t d = 0; d < qk_dim; ++d) to[d * attention_block] = from[d];
  }
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_attention_workspace_f32(const rapt_attention_options *options, size_t *bytes) {
  return workspace_size_of(options, sizeof(float), bytes);
}
rapt_status rapt_attention_workspace_f64(const rapt_attention_options *options, size_t *bytes) {
  return workspace_size_of(options, sizeof(double), bytes);
}

rapt_status rapt_attention_tasks(const rapt_attention_options *options, size_t *tasks) {
  AttentionCall call{};
  const rapt_status status = resolve(options, call.options);
  if (status != RAPT_OK) return status;
  if (!tasks) return RAPT_BAD_OUT;
  *tasks = any_queries(call.options) ? call.tiles() : 0;
  return RAPT_OK;
}

rapt_status rapt_attention_partial_tasks(const rapt_attention_options *options, size_t *tasks,
                                         size_t *partials_length) {
  AttentionCall call{};
  const rapt_status status = resolve(options, call.options);
  if (status != RAPT_OK) return status;
  const rapt_attention_options &o = call.options;
  if (tasks) *tasks = any_queries(o) ? call.tiles() * call.chunks() : 0;
  if (partials_length) *partials_length = o.batch * o.q_heads * o.q_len * call.chunks() * (o.v_dim + 2);
  return RAPT_OK;
}

rapt_status rapt_attention_f32(const float *q, const float *k, const float *v, float *out,
                               const rapt_attention_options *options, void *workspace,
                               size_t workspace_size) {
  return run(&KernelTable::attention_f32, Stage::whole, sizeof(float), {q, k, v, out, nullptr, {}}, options,
             all_tasks, {workspace, workspace_size});
}
rapt_status rapt_attention_f64(const double *q, const double *k, const double *v, double *out,
                               const rapt_attention_options *options, void *workspace,
                               size_t workspace_size) {
  return run(&KernelTable::attention_f64, Stage::whole, sizeof(double), {q, k, v, out, nullptr, {}}, options,
             all_tasks, {workspace, workspace_size});
}

rapt_status rapt_attention_run_f32(const float *q, const float *k, const float *v, float *out,
                                   const rapt_attention_options *options, size_t first, size_t last,
                                   void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_f32, Stage::whole, sizeof(float), {q, k, v, out, nullptr, {}}, options,
             {first, last}, {workspace, workspace_size});
}
rapt_status rapt_attention_run_f64(const double *q, const double *k, const double *v, double *out,
                                   const rapt_attention_options *options, size_t first, size_t last,
                                   void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_f64, Stage::whole, sizeof(double), {q, k, v, out, nullptr, {}}, options,
             {first, last}, {workspace, workspace_size});
}

rapt_status rapt_attention_partial_f32(const float *q, const float *k, const float *v, float *partials,
                                       const rapt_attention_options *options, size_t first, size_t last,
                                       void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_partial_f32, Stage::partial, sizeof(float),
             {q, k, v, nullptr, partials, {}}, options, {first, last}, {workspace, workspace_size});
}
rapt_status rapt_attention_partial_f64(const double *q, const double *k, const double *v, double *partials,
                                       const rapt_attention_options *options, size_t first, size_t last,
                                       void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_partial_f64, Stage::partial, sizeof(double),
             {q, k, v, nullptr, partials, {}}, options, {first, last}, {workspace, workspace_size});
}

// The kernel of this stage only reads the partials.
rapt_status rapt_attention_merge_f32(const float *partials, float *out, const rapt_attention_options *options,
                                     size_t first, size_t last, void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_merge_f32, Stage::merge, sizeof(float),
             {nullptr, nullptr, nullptr, out, const_cast<float *>(partials), {}}, options, {first, last},
             {workspace, workspace_size});
}
rapt_status rapt_attention_merge_f64(const double *partials, double *out,
                                     const rapt_attention_options *options, size_t first, size_t last,
                                     void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_merge_f64, Stage::merge, sizeof(double),
             {nullptr, nullptr, nullptr, out, const_cast<double *>(partials), {}}, options, {first, last},
             {workspace, workspace_size});
}

rapt_status rapt_attention_pack_keys_f32(const float *k, ptrdiff_t token_stride, size_t first, size_t tokens,
                                         size_t qk_dim, float *packed) {
  return pack_keys(k, token_stride, first, tokens, qk_dim, packed);
}
rapt_status rapt_attention_pack_keys_f64(const double *k, ptrdiff_t token_stride, size_t first, size_t tokens,
                                         size_t qk_dim, double *packed) {
  return pack_keys(k, token_stride, first, tokens, qk_dim, packed);
}
