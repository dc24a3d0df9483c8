#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

#define RAPT_TEXT_(x) #x
#define RAPT_TEXT(x) RAPT_TEXT_(x)

const char *rapt_version(void) {
  return RAPT_TEXT(RAPT_VERSION_MAJOR) "." RAPT_TEXT(RAPT_VERSION_MINOR) "." RAPT_TEXT(RAPT_VERSION_PATCH);
}

const char *rapt_status_text(rapt_status status) {
  switch (status) {
    case RAPT_OK:
      return "success";
    case RAPT_BAD_X:
      return "x is null";
    case RAPT_BAD_Y:
      return "y is null";
    case RAPT_BAD_DY:
      return "dy is null";
    case RAPT_BAD_DX:
      return "dx is null";
    case RAPT_BAD_OUT:
      return "out is null";
    case RAPT_BAD_X_STRIDE:
      return "x_stride is smaller than a row";
    case RAPT_BAD_Y_STRIDE:
      return "y_stride is smaller than a row";
    case RAPT_BAD_DY_STRIDE:
      return "dy_stride is smaller than a row";
    case RAPT_BAD_DX_STRIDE:
      return "dx_stride is smaller than a row";
    case RAPT_BAD_OVERLAP:
      return "the output overlaps an input without being exactly that input";
    case RAPT_BAD_SIZE:
      return "rows times stride does not fit the address space";
    case RAPT_BAD_OPTIONS_SIZE:
      return "options->size is not the size of the struct: start from RAPT_SOFTMAX_OPTIONS_INIT or "
             "RAPT_ATTENTION_OPTIONS_INIT";
    case RAPT_BAD_OPTION:
      return "options sets a field that this version of rapt does not know";
    case RAPT_BAD_SCALE:
      return "the scale is NaN or infinite";
    case RAPT_BAD_SOFTCAP:
      return "options->softcap is negative, NaN or infinite";
    case RAPT_BAD_BIAS_STRIDE:
      return "options->bias_stride is neither 0 nor at least a row";
    case RAPT_BAD_MASK_STRIDE:
      return "options->mask_stride is neither 0 nor at least a row";
    case RAPT_BAD_ROW_LENGTHS:
      return "an entry of options->row_lengths is larger than cols";
    case RAPT_BAD_ISA_NAME:
      return "no instruction set of that name is compiled in: see rapt_isa_name";
    case RAPT_BAD_ISA_FOR_THIS_CPU:
      return rapt::unusable_isa_text();
    case RAPT_BAD_Q:
      return "q is null";
    case RAPT_BAD_K:
      return "k is null";
    case RAPT_BAD_V:
      return "v is null";
    case RAPT_BAD_OPTIONS:
      return "options is null";
    case RAPT_BAD_HEADS:
      return "options->q_heads is not a multiple of options->kv_heads";
    case RAPT_BAD_DIM:
      return "options->qk_dim or options->v_dim is 0 or too large";
    case RAPT_BAD_Q_STRIDES:
      return "a stride in options->q_strides is negative";
    case RAPT_BAD_K_STRIDES:
      return "a stride in options->k_strides is negative";
    case RAPT_BAD_V_STRIDES:
      return "a stride in options->v_strides is negative";
    case RAPT_BAD_OUT_STRIDES:
      return "options->out_strides let two rows of out overlap";
    case RAPT_BAD_LSE_STRIDES:
      return "options->lse_strides let two elements of lse coincide";
    case RAPT_BAD_BIAS_STRIDES:
      return "a stride in options->bias_strides is negative";
    case RAPT_BAD_MASK_STRIDES:
      return "a stride in options->mask_strides is negative";
    case RAPT_BAD_QUERY_SCALES:
      return "a stride in options->query_scale_strides is negative";
    case RAPT_BAD_CAUSAL:
      return "options->causal is not one of enum rapt_causal";
    case RAPT_BAD_WINDOW:
      return "options->window_left or options->window_right is below -1";
    case RAPT_BAD_KV_LENGTHS:
      return "an entry of options->kv_lengths is negative or larger than options->kv_len";
    case RAPT_BAD_OFFSETS:
      return "options->q_offsets or options->kv_offsets decrease, or hold a sequence longer than "
             "options->q_len or kv_len";
    case RAPT_BAD_BLOCK_TABLE:
      return "options->page_size is not a multiple of 16, a page number is negative, the table is too "
             "short, or kv_offsets is set beside it";
    case RAPT_BAD_PACKED_KEYS:
      return "packed keys go with pages of a multiple of 64 keys, and not with options->kv_offsets";
    case RAPT_BAD_PARTIALS:
      return "partials is null";
    case RAPT_BAD_WORKSPACE:
      return "workspace is null or smaller than rapt_attention_workspace says";
    case RAPT_BAD_TASKS:
      return "the range of tasks is not within those that rapt_attention_tasks counts";
    case RAPT_BAD_GRADIENTS:
      return "gradients is null, or gradients->size is not the size of the struct: start from "
             "RAPT_ATTENTION_GRADIENTS_INIT";
    case RAPT_BAD_LSE:
      return "options->lse is null: the backward call reads it";
    case RAPT_BAD_DOUT:
      return "gradients->dout is null";
    case RAPT_BAD_DQ:
      return "gradients->dq is null";
    case RAPT_BAD_DK:
      return "gradients->dk is null";
    case RAPT_BAD_DV:
      return "gradients->dv is null";
    case RAPT_BAD_DOUT_STRIDES:
      return "a stride in gradients->dout_strides is negative";
    case RAPT_BAD_DQ_STRIDES:
      return "gradients->dq_strides let two rows of dq overlap";
    case RAPT_BAD_DK_STRIDES:
      return "gradients->dk_strides let two rows of dk overlap";
    case RAPT_BAD_DV_STRIDES:
      return "gradients->dv_strides let two rows of dv overlap";
    case RAPT_BAD_DBIAS:
      return "gradients->dbias is set without options->bias, or options->bias_strides let two rows of it "
             "overlap in part";
  }
  return "not a status of rapt";
}
