// Implements rapt_attention_backward. Each call checks its arguments before it writes anything.
#include <cstring>

#include "api/attention_arrays.hpp"
#include "api/attention_run.hpp"
#include "call/backward_task.hpp"

namespace rapt {
namespace {

bool has_gradient(rapt_type type) {
  return type == RAPT_F32 || type == RAPT_F64 || type == RAPT_F16 || type == RAPT_BF16;
}

// Copies and checks the struct of gradients. The defaults in `o` must already be filled in.
rapt_status read_gradients(const rapt_attention_gradients *given, const rapt_attention_options &o,
                           rapt_attention_gradients &gradients) {
  if (!given) return RAPT_BAD_GRADIENTS;
  const rapt_status status = read_options(given, gradients);
  if (status != RAPT_OK) return status == RAPT_BAD_OPTIONS_SIZE ? RAPT_BAD_GRADIENTS : status;
  if (!has_gradient(o.kv_type) || dequantizes(o)) return RAPT_BAD_TYPE;
  int type;  // reading an unknown number as a rapt_type would be undefined
  std::memcpy(&type, &gradients.type, sizeof type);
  if (type != RAPT_TYPE_DEFAULT && type != number_type(o)) return RAPT_BAD_TYPE;
  if (o.packed_keys) return RAPT_BAD_PACKED_KEYS;
  if (o.block_table) return RAPT_BAD_BLOCK_TABLE;
  if (o.key_lists) return RAPT_BAD_KEY_LISTS;
  const bool has_own_bias = o.bias && o.bias_type == number_type(o) && !o.bias_slopes;
  if (gradients.dbias && !has_own_bias) return RAPT_BAD_DBIAS;
  if (gradients.dsinks && !o.sinks) return RAPT_BAD_DSINKS;
  return RAPT_OK;
}

rapt_status check_pointers(const AttentionCall &call) {
  const rapt_attention_options &o = call.options;
  const rapt_attention_gradients &g = *call.gradients;
  const bool any_keys = o.kv_len > 0;
  if (o.q_len > 0) {
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
  return RAPT_OK;
}

using Tensors = std::initializer_list<const Strided *>;

// Checks that outputs share no element with each other or with inputs.
rapt_status check_outputs_are_apart(Tensors outputs, Tensors inputs) {
  for (const Strided *output : outputs) {
    for (const Strided *input : inputs) {
      if (output->overlaps(*input)) return RAPT_BAD_OVERLAP;
    }
    for (const Strided *other : outputs) {
      if (other != output && output->overlaps(*other)) return RAPT_BAD_OVERLAP;
    }
  }
  return RAPT_OK;
}

rapt_status check_arrays(AttentionCall &call, rapt_attention_gradients &g, Strided workspace) {
  Arrays arrays(call);
  const rapt_attention_options &o = call.options;
  const Dims q_dims = arrays.queries(o.qk_dim), out_dims = arrays.queries(o.v_dim);
  const Dims k_dims = arrays.keys(o.qk_dim), v_dims = arrays.keys(o.v_dim);
  rapt_status status = arrays.resolve_common();
  if (status == RAPT_OK) status = Arrays::input(g.dout_strides, out_dims, RAPT_BAD_DOUT_STRIDES);
  if (status == RAPT_OK) status = Arrays::output(g.dq_strides, q_dims, RAPT_BAD_DQ_STRIDES);
  if (status == RAPT_OK) status = Arrays::output(g.dk_strides, k_dims, RAPT_BAD_DK_STRIDES);
  if (status == RAPT_OK) status = Arrays::output(g.dv_strides, v_dims, RAPT_BAD_DV_STRIDES);
  if (status != RAPT_OK) return status;
  Arrays::Inputs in = arrays.inputs();
  Strided out = arrays.of_queries(g.out, o.out_strides, o.v_dim, size_of(o.out_type)), lse = arrays.lse();
  Strided dout = arrays.of_queries(g.dout, g.dout_strides, o.v_dim, size_of(o.out_type));
  if (!in.measure() || !out.measure() || !lse.measure() || !dout.measure() || !workspace.measure()) {
    return RAPT_BAD_SIZE;
  }

  Strided dbias = arrays.of_bias(g.dbias), dsinks(g.dsinks, o.q_heads, number_size(o.q_type));
  const bool is_default = g.type == RAPT_TYPE_DEFAULT;
  const std::size_t dq_size = size_of(is_default ? o.q_type : g.type),
                    dkv_size = size_of(is_default ? o.kv_type : g.type);
  Strided dq = arrays.of_queries(g.dq, g.dq_strides, o.qk_dim, dq_size);
  Strided dk = arrays.of_keys(g.dk, g.dk_strides, o.qk_dim, dkv_size);
  Strided dv = arrays.of_keys(g.dv, g.dv_strides, o.v_dim, dkv_size);
  if (!dbias.measure() || !dbias.rows_are_apart_or_same()) return RAPT_BAD_DBIAS;
  status = arrays.check_overlap(in, dbias);
  if (status == RAPT_OK) status = arrays.check_output(in, dsinks, RAPT_BAD_SIZE);
  if (status == RAPT_OK) status = arrays.check_output(in, dq, RAPT_BAD_DQ_STRIDES);
  if (status == RAPT_OK) status = arrays.check_output(in, dk, RAPT_BAD_DK_STRIDES);
  if (status == RAPT_OK) status = arrays.check_output(in, dv, RAPT_BAD_DV_STRIDES);
  if (status == RAPT_OK) {
    status = check_outputs_are_apart({&dq, &dk, &dv, &dbias, &dsinks}, {&out, &lse, &dout});
  }
  if (status != RAPT_OK) return status;
  return arrays.check_workspace(in, workspace, {&dq, &dk, &dv, &dbias, &dsinks, &out, &lse, &dout});
}

struct Run {
  AttentionCall call;
  const rapt_attention_options *options;
  const rapt_attention_gradients *given_gradients;
  Tasks tasks;
  Workspace workspace;
  rapt_attention_gradients gradients{};  // the checked copy, with defaults filled in

  rapt_status operator()() {
    const rapt_attention_options &o = call.options;
    call.gradients = &gradients;
    rapt_status status = resolve(options, call.options);
    if (status == RAPT_OK) status = read_gradients(given_gradients, o, gradients);
    // Gradients of all types but f64 are computed in f32.
    if (o.q_type != RAPT_F64) call.options.arithmetic = RAPT_ARITHMETIC_F32;
    if (status == RAPT_OK) status = check_pointers(call);
    if (status == RAPT_OK) status = check_lengths(o);
    if (status == RAPT_OK) status = check_starts(o);
    if (status != RAPT_OK) return status;
    if (!tasks.fit(BackwardTasks::count(call))) return RAPT_BAD_TASKS;
    const std::size_t bytes = workspace_bytes(backward_workspace_length, o);
    if (!workspace.holds(bytes)) return RAPT_BAD_WORKSPACE;
    status = check_arrays(call, gradients, workspace.memory(bytes));
    if (status != RAPT_OK || tasks.first == tasks.last) return status;
    run_tasks(call, tasks, workspace);
    return RAPT_OK;
  }
};

}  // namespace
}  // namespace rapt

using namespace rapt;

rapt_status rapt_attention_backward_workspace(const rapt_attention_options *options, size_t *bytes) {
  return workspace_bytes_of(backward_workspace_length, options, bytes);
}

rapt_status rapt_attention_backward_tasks(const rapt_attention_options *options,
                                          const rapt_attention_gradients *gradients, size_t *tasks) {
  return in_default_mode([&] {
    AttentionCall call;
    rapt_attention_gradients resolved;
    rapt_status status = resolve(options, call.options);
    if (status == RAPT_OK) status = read_gradients(gradients, call.options, resolved);
    if (status != RAPT_OK) return status;
    if (!tasks) return RAPT_BAD_OUT;
    call.gradients = &resolved;
    *tasks = BackwardTasks::count(call);
    return RAPT_OK;
  });
}

rapt_status rapt_attention_backward(const void *q, const void *k, const void *v,
                                    const rapt_attention_options *options,
                                    const rapt_attention_gradients *gradients, void *workspace,
                                    size_t workspace_size) {
  return in_default_mode(
      Run{{.q = q, .k = k, .v = v}, options, gradients, all_tasks, {workspace, workspace_size}});
}

rapt_status rapt_attention_backward_run(const void *q, const void *k, const void *v,
                                        const rapt_attention_options *options,
                                        const rapt_attention_gradients *gradients, size_t first, size_t last,
                                        void *workspace, size_t workspace_size) {
  return in_default_mode(
      Run{{.q = q, .k = k, .v = v}, options, gradients, {first, last}, {workspace, workspace_size}});
}
