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
      return "a size does not fit the address space, or a span is shorter than its shape";
    case RAPT_BAD_OPTIONS_SIZE:
      return "options->size is not the size of the struct: start from RAPT_SOFTMAX_OPTIONS_INIT or "
             "RAPT_ATTENTION_OPTIONS_INIT";
    case RAPT_BAD_OPTION:
      return "options sets a field that this version of rapt does not know";
    case RAPT_BAD_SCALE:
      return "the scale, as a number of the arithmetic type, is not normal or above the largest / log2(e)";
    case RAPT_BAD_SOFTCAP:
      return "softcap is negative, or it or scale / softcap is not a normal number of the arithmetic type";
    case RAPT_BAD_BIAS_STRIDE:
      return "options->bias_stride is smaller than a row, or set without a bias";
    case RAPT_BAD_MASK_STRIDE:
      return "options->mask_stride is smaller than a row, or set without a mask";
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
      return "options->q_strides: not all are 0, and one of a dimension longer than 1 is 0 or negative "
             "(RAPT_REPEAT repeats)";
    case RAPT_BAD_K_STRIDES:
      return "options->k_strides: not all are 0, and one of a dimension longer than 1 is 0 or negative "
             "(RAPT_REPEAT repeats)";
    case RAPT_BAD_V_STRIDES:
      return "options->v_strides: not all are 0, and one of a dimension longer than 1 is 0 or negative "
             "(RAPT_REPEAT repeats)";
    case RAPT_BAD_OUT_STRIDES:
      return "options->out_strides let two rows of out overlap, or one is missing";
    case RAPT_BAD_LSE_STRIDES:
      return "options->lse_strides let two elements coincide, one is missing, or they are set without lse";
    case RAPT_BAD_BIAS_STRIDES:
      return "options->bias_strides: one of a dimension longer than 1 is 0 or negative (RAPT_REPEAT "
             "repeats), or they are set without bias";
    case RAPT_BAD_MASK_STRIDES:
      return "options->mask_strides: one of a dimension longer than 1 is 0 or negative (RAPT_REPEAT "
             "repeats), or they are set without mask";
    case RAPT_BAD_QUERY_SCALES:
      return "options->query_scale_strides: one of a dimension longer than 1 is 0 or negative (RAPT_REPEAT "
             "repeats), or they are set without query_scales";
    case RAPT_BAD_CAUSAL:
      return "options->causal is not one of enum rapt_causal";
    case RAPT_BAD_KV_LENGTHS:
      return "an entry of options->kv_lengths is negative or larger than options->kv_len";
    case RAPT_BAD_OFFSETS:
      return "options->q_offsets or options->kv_offsets decrease, or hold a sequence longer than "
             "options->q_len or kv_len";
    case RAPT_BAD_BLOCK_TABLE:
      return "a page number in options->block_table is negative, block_table_stride is smaller than a "
             "sequence needs or set without a table, or kv_offsets is set beside it";
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
      return "gradients->dout_strides: not all are 0, and one of a dimension longer than 1 is 0 or negative "
             "(RAPT_REPEAT repeats)";
    case RAPT_BAD_DQ_STRIDES:
      return "gradients->dq_strides let two rows of dq overlap";
    case RAPT_BAD_DK_STRIDES:
      return "gradients->dk_strides let two rows of dk overlap";
    case RAPT_BAD_DV_STRIDES:
      return "gradients->dv_strides let two rows of dv overlap";
    case RAPT_BAD_DBIAS:
      return "gradients->dbias is set without options->bias, or options->bias_strides let two rows of it "
             "overlap in part";
    case RAPT_BAD_SHAPE:
      return "options->batch or options->q_heads is 0";
    case RAPT_BAD_TYPE:
      return "an element type is not one that this version has for this function: RAPT_F32 or RAPT_F64, the "
             "same for q, k, v and out";
    case RAPT_BAD_ARITHMETIC:
      return "options->arithmetic is not one that these element types have";
    case RAPT_BAD_KV_SCALES:
      return "options->k_scales, v_scales or scale_group is set, and keys and values are not RAPT_I8";
    case RAPT_BAD_CAUSAL_OFFSET:
      return "options->causal_offset is set without RAPT_CAUSAL_OFFSET, or its magnitude is above 2^60";
    case RAPT_BAD_PAGE_SIZE:
      return "options->page_size is not a multiple of 16, is 0 beside block_table, or is set without it";
    case RAPT_BAD_DSINKS:
      return "gradients->dsinks is set without options->sinks";
  }
  return "not a status of rapt";
}
