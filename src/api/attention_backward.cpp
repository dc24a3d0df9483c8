// attention_backward: the arguments are checked here, once a call, before anything is written.
#include "api/attention_arguments.hpp"

namespace rapt {
namespace {

rapt_status read_gradients(const rapt_attention_gradients *given, rapt_attention_gradients &gradients) {
  if (!given) return RAPT_BAD_GRADIENTS;
  gradients = RAPT_ATTENTION_GRADIENTS_INIT;
  const rapt_status status = read_options(given, gradients);
  return status == RAPT_BAD_OPTIONS_SIZE ? RAPT_BAD_GRADIENTS : status;
}

rapt_status check_pointers(const AttentionCall &call) {
  const rapt_attention_options &o = call.options;
  const rapt_attention_gradients &g = *call.gradients;
  const bool any_keys = o.batch > 0 && o.kv_heads > 0 && o.kv_len > 0;
  if (any_queries(o)) {
    if (!call.q) return RAPT_BAD_Q;
    if (any_keys && !call.k) return RAPT_BAD_K;
    if (any_keys && !call.v) return RAPT_BAD_V;
    if (!g.out) return RAPT_BAD_OUT;
    if (!o.lse) return RAPT_BAD_LSE;
    if (!g.dout) return RAPT_BAD_DOUT;
    if (!g.dq) return RAPT_BAD_DQ;
  }
  if (any_keys && !g.dk) return RAPT_BAD_DK;
  if (any_keys && !g.dv) return RAPT_BAD_DV;
  if (g.dbias && !o.bias) return RAPT_BAD_DBIAS;
  return RAPT_OK;
}

rapt_status check_arrays(AttentionCall &call, rapt_attention_gradients &g, std::size_t element_size) {
  const Arrays arrays(call, element_size);
  const rapt_attention_options &o = call.options;
  if (all_zero(g.dout_strides)) g.dout_strides = contiguous(o.q_heads, arrays.q_tokens(), o.v_dim);
  if (all_zero(g.dq_strides)) g.dq_strides = contiguous(o.q_heads, arrays.q_tokens(), o.qk_dim);
  if (all_zero(g.dk_strides)) g.dk_strides = contiguous(o.kv_heads, arrays.kv_tokens(), o.qk_dim);
  if (all_zero(g.dv_strides)) g.dv_strides = contiguous(o.kv_heads, arrays.kv_tokens(), o.v_dim);
  Arrays::Inputs in = arrays.inputs();
  rapt_status status = arrays.check_inputs(in);
  if (status != RAPT_OK) return status;
  Strided out = arrays.queries(g.out, o.out_strides, o.v_dim);
  Strided lse = arrays.queries(o.lse, o.lse_strides, 1);
  Strided dout = arrays.queries(g.dout, g.dout_strides, o.v_dim);
  if (out.any_negative()) return RAPT_BAD_OUT_STRIDES;
  if (lse.any_negative()) return RAPT_BAD_LSE_STRIDES;
  if (dout.any_negative()) return RAPT_BAD_DOUT_STRIDES;
  for (Strided *tensor : {&out, &lse, &dout}) {
    if (!tensor->measure()) return RAPT_BAD_SIZE;
  }

  // Of a dbias whose strides are 0, one element stands for many.
  Strided dbias = arrays.own(g.dbias, o.bias_strides, o.kv_len, element_size);
  Strided dsinks(g.dsinks, {0, 0, 0}, g.dsinks ? 1 : 0, 1, 1, o.q_heads, element_size);
  Strided dq = arrays.queries(g.dq, g.dq_strides, o.qk_dim);
  Strided dk = arrays.keys(g.dk, g.dk_strides, o.qk_dim);
  Strided dv = arrays.keys(g.dv, g.dv_strides, o.v_dim);
  if (!dbias.measure() || !dbias.rows_are_apart_or_same()) return RAPT_BAD_DBIAS;
  status = arrays.check_overlap(in, dbias);
  if (status == RAPT_OK) status = arrays.check_output(in, dsinks, RAPT_BAD_SIZE);
  if (status == RAPT_OK) status = arrays.check_output(in, dq, RAPT_BAD_DQ_STRIDES);
  if (status == RAPT_OK) status = arrays.check_output(in, dk, RAPT_BAD_DK_STRIDES);
  if (status == RAPT_OK) status = arrays.check_output(in, dv, RAPT_BAD_DV_STRIDES);
  if (status != RAPT_OK) return status;
  const Strided *const outputs[] = {&dq, &dk, &dv, &dbias, &dsinks};
  for (const Strided *output : outputs) {
    for (const Strided *input : {&out, &lse, &dout}) {
      if (output->overlaps(*input)) return RAPT_BAD_OVERLAP;
    }
    for (const Strided *other : outputs) {
      if (other != output && output->overlaps(*other)) return RAPT_BAD_OVERLAP;
    }
  }
  return RAPT_OK;
}

rapt_status run(AttentionKernel kernel, std::size_t element_size, AttentionCall call,
                const rapt_attention_options *given, const rapt_attention_gradients *given_gradients,
                Tasks tasks, Workspace workspace) {
  rapt_attention_gradients gradients;
  rapt_status status = resolve(given, call.options);
  if (status == RAPT_OK) status = read_gradients(given_gradients, gradients);
  if (status != RAPT_OK) return status;
  call.gradients = &gradients;
  const rapt_attention_options &o = call.options;
  if (o.packed_keys) return RAPT_BAD_PACKED_KEYS;
  if (o.block_table) return RAPT_BAD_BLOCK_TABLE;
  status = check_pointers(call);
  if (status == RAPT_OK) status = check_lengths(o);
  if (status != RAPT_OK) return status;
  const std::size_t count = o.batch > 0 && o.kv_heads > 0 ? BackwardTask::count(call) : 0;
  if (!tasks.fit(count)) return RAPT_BAD_TASKS;
  if (!workspace.data || workspace.size < workspace_bytes(backward_workspace_length, o, element_size))
    return RAPT_BAD_WORKSPACE;
  status = check_arrays(call, gradients, element_size);
  if (status != RAPT_OK || tasks.first == tasks.last) return status;
  run_tasks(kernel, call, tasks, workspace);
  return RAPT_OK;
}

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_attention_backward_workspace_f32(const rapt_attention_options *options, size_t *bytes) {
  return workspace_bytes_of(backward_workspace_length, options, sizeof(float), bytes);
}
rapt_status rapt_attention_backward_workspace_f64(const rapt_attention_options *options, size_t *bytes) {
  return workspace_bytes_of(backward_workspace_length, options, sizeof(double), bytes);
}

rapt_status rapt_attention_backward_tasks(const rapt_attention_options *options,
                                          const rapt_attention_gradients *gradients, size_t *tasks) {
  AttentionCall call{};
  rapt_attention_gradients resolved;
  rapt_status status = resolve(options, call.options);
  if (status == RAPT_OK) status = read_gradients(gradients, resolved);
  if (status != RAPT_OK) return status;
  if (!tasks) return RAPT_BAD_OUT;
  call.gradients = &resolved;
  *tasks = call.options.batch > 0 && call.options.kv_heads > 0 ? BackwardTask::count(call) : 0;
  return RAPT_OK;
}

rapt_status rapt_attention_backward_f32(const float *q, const float *k, const float *v,
                                        const rapt_attention_options *options,
                                        const rapt_attention_gradients *gradients, void *workspace,
                                        size_t workspace_size) {
  return run(&KernelTable::attention_backward_f32, sizeof(float), {.q = q, .k = k, .v = v}, options,
             gradients, all_tasks, {workspace, workspace_size});
}
rapt_status rapt_attention_backward_f64(const double *q, const double *k, const double *v,
                                        const rapt_attention_options *options,
                                        const rapt_attention_gradients *gradients, void *workspace,
                                        size_t workspace_size) {
  return run(&KernelTable::attention_backward_f64, sizeof(double), {.q = q, .k = k, .v = v}, options,
             gradients, all_tasks, {workspace, workspace_size});
}

rapt_status rapt_attention_backward_run_f32(const float *q, const float *k, const float *v,
                                            const rapt_attention_options *options,
                                            const rapt_attention_gradients *gradients, size_t first,
                                            size_t last, void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_backward_f32, sizeof(float), {.q = q, .k = k, .v = v}, options,
             gradients, {first, last}, {workspace, workspace_size});
}
rapt_status rapt_attention_backward_run_f64(const double *q, const double *k, const double *v,
                                            const rapt_attention_options *options,
                                            const rapt_attention_gradients *gradients, size_t first,
                                            size_t last, void *workspace, size_t workspace_size) {
  return run(&KernelTable::attention_backward_f64, sizeof(double), {.q = q, .k = k, .v = v}, options,
             gradients, {first, last}, {workspace, workspace_size});
}
