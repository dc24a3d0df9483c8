// attention: the arguments are checked here, once a call, before anything is written.
#include "api/attention_arguments.hpp"

namespace rapt {
namespace {

enum class Stage { whole, partial, merge };

rapt_status check_arrays(AttentionCall &call, Stage stage, std::size_t element_size) {
  const Arrays arrays(call, element_size);
  const rapt_attention_options &o = call.options;
  Arrays::Inputs in = arrays.inputs();
  rapt_status status = arrays.check_inputs(in);
  if (status != RAPT_OK) return status;
  const std::size_t partials_bytes = call.partials_length() * element_size;
  if (stage == Stage::partial) {
    Strided partials(call.partials, {0, 0, 0}, 1, 1, 1, partials_bytes, 1);
    return arrays.check_output(in, partials, RAPT_BAD_SIZE);
  }
  Strided out = arrays.queries(call.out, o.out_strides, o.v_dim);
  status = arrays.check_output(in, out, RAPT_BAD_OUT_STRIDES, true);
  Strided lse = arrays.queries(o.lse, o.lse_strides, 1);
  if (status == RAPT_OK) status = arrays.check_output(in, lse, RAPT_BAD_LSE_STRIDES);
  if (status != RAPT_OK) return status;
  if (lse.overlaps(out) || Arrays::overlaps(out, call.partials, partials_bytes) ||
      Arrays::overlaps(lse, call.partials, partials_bytes)) {
    return RAPT_BAD_OVERLAP;
  }
  return RAPT_OK;
}

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
  if (!tasks.fit(count)) return RAPT_BAD_TASKS;
  if (!workspace.data || workspace.size < workspace_bytes(attention_workspace_length, o, element_size))
    return RAPT_BAD_WORKSPACE;
  if (!any_work) return RAPT_OK;
  status = check_arrays(call, stage, element_size);
  if (status != RAPT_OK || tasks.first == tasks.last) return status;
  run_tasks(kernel, call, tasks, workspace);
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
  return workspace_bytes_of(attention_workspace_length, options, sizeof(float), bytes);
}
rapt_status rapt_attention_workspace_f64(const rapt_attention_options *options, size_t *bytes) {
  return workspace_bytes_of(attention_workspace_length, options, sizeof(double), bytes);
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
  if (partials_length) *partials_length = call.partials_length();
  return RAPT_OK;
}

rapt_status rapt_attention_f32(const float *q, const float *k, const float *v, float *out,
                               const rapt_attention_options *options, void *workspace,
                               size_t workspace_size) {
  return run(&KernelTable::attention_f32, Stage::whole, sizeof(float), {.q = q, .k = k, .v = v, .out = out},
             options, all_tasks, {workspace, workspace_size});
}
rapt_status rapt_attention_f64(const double *q, const double *k, const double *v, double *out,
                               const rapt_attention_options *options, void *workspace,
                               size_t workspace_size) {
  return run(&KernelTable::attention_f64, Stage::whole, sizeof(double), {.q = q, .k = k, .v = v, .out = out},
             options, all_tasks, {workspace, workspace_size});
}

rapt_status rapt_attention_run_f32(const float *q, const float *k, const float *v, float *out,
                                   const rapt_attention_options *options, size_t first, size_t last,
                                   void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_f32, Stage::whole, sizeof(float), {.q = q, .k = k, .v = v, .out = out},
             options, {first, last}, {workspace, workspace_size});
}
rapt_status rapt_attention_run_f64(const double *q, const double *k, const double *v, double *out,
                                   const rapt_attention_options *options, size_t first, size_t last,
                                   void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_f64, Stage::whole, sizeof(double), {.q = q, .k = k, .v = v, .out = out},
             options, {first, last}, {workspace, workspace_size});
}

rapt_status rapt_attention_partial_f32(const float *q, const float *k, const float *v, float *partials,
                                       const rapt_attention_options *options, size_t first, size_t last,
                                       void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_partial_f32, Stage::partial, sizeof(float),
             {.q = q, .k = k, .v = v, .partials = partials}, options, {first, last},
             {workspace, workspace_size});
}
rapt_status rapt_attention_partial_f64(const double *q, const double *k, const double *v, double *partials,
                                       const rapt_attention_options *options, size_t first, size_t last,
                                       void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_partial_f64, Stage::partial, sizeof(double),
             {.q = q, .k = k, .v = v, .partials = partials}, options, {first, last},
             {workspace, workspace_size});
}

// The kernel of this stage only reads the partials.
rapt_status rapt_attention_merge_f32(const float *partials, float *out, const rapt_attention_options *options,
                                     size_t first, size_t last, void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_merge_f32, Stage::merge, sizeof(float),
             {.out = out, .partials = const_cast<float *>(partials)}, options, {first, last},
             {workspace, workspace_size});
}
rapt_status rapt_attention_merge_f64(const double *partials, double *out,
                                     const rapt_attention_options *options, size_t first, size_t last,
                                     void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_merge_f64, Stage::merge, sizeof(double),
             {.out = out, .partials = const_cast<double *>(partials)}, options, {first, last},
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
