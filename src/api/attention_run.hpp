// Checks the tasks and the workspace of an attention call, and runs its kernel.
#pragma once

#include <cstddef>

#include "api/attention_options.hpp"
#include "api/floating_point.hpp"
#include "api/tasks.hpp"
#include "call/attention_workspace.hpp"
#include "call/element.hpp"
#include "dispatch/dispatch.hpp"

namespace rapt {
namespace {

// A WorkspaceLength returns the number of workspace elements that a forward or a backward call needs.
using WorkspaceLength = std::size_t (*)(const rapt_attention_options &);

inline std::size_t workspace_bytes(WorkspaceLength length, const rapt_attention_options &o) {
  return length(o) * number_size(o.q_type) + workspace_alignment;
}

// Implements rapt_attention_workspace and rapt_attention_backward_workspace.
inline rapt_status workspace_bytes_of(WorkspaceLength length, const rapt_attention_options *given,
                                      std::size_t *bytes) {
  return in_default_mode([&] {
    rapt_attention_options o;
    const rapt_status status = resolve(given, o);
    if (status != RAPT_OK) return status;
    if (!bytes) return RAPT_BAD_OUT;
    *bytes = workspace_bytes(length, o);
    return RAPT_OK;
  });
}

inline auto kernel_of(const AttentionCall &call) {
  if (call.gradients) {  // one kernel serves every type that is computed in f32
    return call.options.q_type == RAPT_F64 ? kernels().f64.attention_backward
                                           : kernels().f32.attention_backward;
  }
  if (dequantizes(call.options)) {
    return call.stage == AttentionStage::merge ? kernels().f32.attention
                                               : kernels().f32.attention_dequantizing;
  }
  switch (call.options.kv_type) {
    case RAPT_F32:
      return kernels().f32.attention;
    case RAPT_F64:
      return kernels().f64.attention;
    case RAPT_F16:
      return kernels().f16.attention;
    case RAPT_BF16:
      // Partial results of both arithmetics merge with the same kernel.
      return call.options.arithmetic == RAPT_ARITHMETIC_BF16 && call.stage != AttentionStage::merge
                 ? kernels().bf16.attention_in_bf16
                 : kernels().bf16.attention;
    case RAPT_I8:
      return kernels().i8.attention;
    default:
      break;
  }
  __builtin_unreachable();
}

// Kernels that dequantize keys and values address both in bytes.
inline void count_strides_in_bytes(rapt_attention_options &o) {
  const auto to_bytes = [](rapt_strides &strides, rapt_type type) {
    const auto size = static_cast<std::ptrdiff_t>(size_of(type));
    strides = {strides.batch * size, strides.head * size, strides.token * size};
  };
  to_bytes(o.k_strides, o.kv_type);
  to_bytes(o.v_strides, o.v_type);
}

inline void run_tasks(const AttentionCall &call, const Tasks &tasks, const Workspace &workspace) {
  kernel_of(call)(&call, tasks.first, tasks.last, workspace.aligned());
}

}  // namespace
}  // namespace rapt
