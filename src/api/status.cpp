// Defines the texts of statuses, and the library's version.
#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace {

// A status without a text must not compile.
#pragma GCC diagnostic error "-Wswitch"
const char *text_of(rapt_status status) {
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
      return "size of options or of batch is not the size of the struct in a release: start from "
             "RAPT_SOFTMAX_OPTIONS_INIT, RAPT_ATTENTION_OPTIONS_INIT or RAPT_LINEAR_OPTIONS_INIT";
    case RAPT_BAD_EMPTY_ROWS:
      return "options->empty_rows_are_zero is set for logsumexp, where it has no effect";
    case RAPT_BAD_SCALE:
      return "the scale is not a normal number of the arithmetic type, or above its largest / log2(e)";
    case RAPT_BAD_SOFTCAP:
      return "softcap is negative, or softcap or scale / softcap is not a normal number of the "
             "arithmetic type";
    case RAPT_BAD_BIAS_STRIDE:
      return "options->bias_stride is smaller than a row, or set without a bias";
    case RAPT_BAD_MASK_STRIDE:
      return "options->mask_stride is smaller than a row, or set without a mask";
    case RAPT_BAD_ROW_LENGTHS:
      return "an entry of options->row_lengths is larger than cols, or than tokens";
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
      return "options or batch is null";
    case RAPT_BAD_HEADS:
      return "options->q_heads is not a multiple of options->kv_heads, or q_heads, k_heads and v_heads do not fit";
    case RAPT_BAD_DIM:
      return "options->qk_dim or options->v_dim is 0, too large, or no multiple of the numbers of a block";
    case RAPT_BAD_SHAPE:
      return "options->batch, q_heads, heads, head_dim, in_features, in_channels, taps, experts or top_k is 0, "
             "in_features is no multiple of the inputs of a file's block, or taps reach beyond the padded in_size";
    case RAPT_BAD_TYPE:
      return "the element types of the arrays do not go together, or are not those of the ranges";
    case RAPT_BAD_ARITHMETIC:
      return "the element types do not have options->arithmetic";
    case RAPT_BAD_KV_SCALES:
      return "options->k_scales or v_scales is null for RAPT_I8 or RAPT_I4, they or scale_group are set for "
             "another type, or scale_group is not 0, 32, 64 or 128 or does not divide qk_dim and v_dim";
    case RAPT_BAD_Q_STRIDES:
      return "options->q_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
             "repeats)";
    case RAPT_BAD_K_STRIDES:
      return "options->k_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
             "repeats)";
    case RAPT_BAD_V_STRIDES:
      return "options->v_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
             "repeats)";
    case RAPT_BAD_OUT_STRIDES:
      return "options->out_strides let two rows of out overlap, or lack a stride";
    case RAPT_BAD_LSE_STRIDES:
      return "options->lse_strides let two elements coincide, lack a stride, or are set without lse";
    case RAPT_BAD_BIAS_STRIDES:
      return "options->bias_strides has a stride of 0 or below for a dimension longer than 1 "
             "(RAPT_REPEAT repeats), or is set without bias";
    case RAPT_BAD_MASK_STRIDES:
      return "options->mask_strides has a stride of 0 or below for a dimension longer than 1 "
             "(RAPT_REPEAT repeats), or is set without mask";
    case RAPT_BAD_QUERY_SCALES:
      return "options->query_scale_strides has a stride of 0 or below for a dimension longer than 1 "
             "(RAPT_REPEAT repeats), or is set without query_scales";
    case RAPT_BAD_CAUSAL:
      return "options->causal is not one of enum rapt_causal";
    case RAPT_BAD_CAUSAL_OFFSET:
      return "options->causal_offset is set without RAPT_CAUSAL_OFFSET, or its magnitude is above 2^60";
    case RAPT_BAD_KV_LENGTHS:
      return "an entry of options->kv_lengths is negative or larger than options->kv_len";
    case RAPT_BAD_OFFSETS:
      return "options->q_offsets or kv_offsets decrease, or hold a sequence longer than options->q_len "
             "or kv_len, or offsets of bags is null, does not begin at 0 or decreases";
    case RAPT_BAD_BLOCK_TABLE:
      return "options->block_table has a negative page, lacks pages for a sequence, or is set with "
             "kv_offsets or backwards; or block_table_stride is set without it";
    case RAPT_BAD_PAGE_SIZE:
      return "options->page_size is 0 with options->block_table, or set without it";
    case RAPT_BAD_PACKED_KEYS:
      return "options->packed_keys is set with kv_offsets, with pages that are no multiple of 64 keys, "
             "with k and v in blocks or of two types, or backwards";
    case RAPT_BAD_PARTIALS:
      return "partials is null";
    case RAPT_BAD_WORKSPACE:
      return "workspace is null, too small (see rapt_attention_workspace and rapt_linear_workspace), "
             "or overlaps another array";
    case RAPT_BAD_TASKS:
      return "first is above last, or last above the number of tasks";
    case RAPT_BAD_GRADIENTS:
      return "gradients is null, or gradients->size is not the size of the struct in a release: start "
             "from RAPT_ATTENTION_GRADIENTS_INIT or RAPT_DELTA_RULE_GRADIENTS_INIT";
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
      return "gradients->dout_strides has a stride of 0 or below for a dimension longer than 1 "
             "(RAPT_REPEAT repeats)";
    case RAPT_BAD_DQ_STRIDES:
      return "gradients->dq_strides let two rows of dq overlap";
    case RAPT_BAD_DK_STRIDES:
      return "gradients->dk_strides let two rows of dk overlap";
    case RAPT_BAD_DV_STRIDES:
      return "gradients->dv_strides let two rows of dv overlap";
    case RAPT_BAD_DBIAS:
      return "gradients->dbias is set without options->bias, or with bias_slopes or a bias_type of 16 bits, or "
             "options->bias_strides let two of its rows partly overlap";
    case RAPT_BAD_DSINKS:
      return "gradients->dsinks is set without options->sinks";
    case RAPT_BAD_W:
      return "w is null";
    case RAPT_BAD_X_STRIDES:
      return "options->x_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
             "repeats)";
    case RAPT_BAD_W_STRIDES:
      return "options->w_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
             "repeats), is set with packed weights, or lets two elements of unpacked weights coincide";
    case RAPT_BAD_ADD:
      return "options->add_type, add_stride or batch->add_strides without add, a stride of add that is too small, or add is y in a call of "
             "experts with y_rows";
    case RAPT_BAD_PACKED:
      return "packed is null, packed_size is too small, first_output is no multiple of 64, or packed weights are "
             "damaged, or have other types, sizes or arrays than options";
    case RAPT_BAD_SCALE_GROUP:
      return "options->scale_group is not 0, 16, 32, 64, 128 or 256, or is set for float weights";
    case RAPT_BAD_W_SCALES:
      return "options->w_scales or w_scale_type is set for float weights or packed weights, w_scale_type is set "
             "without w_scales and w_offsets, or it is not RAPT_F32, RAPT_F16 or RAPT_BF16; w_scales is given for "
             "packed weights without scales; or options->outputs_per_scale is not 0, 1, 64, 128, 256 or SIZE_MAX, or is "
             "set without w_scales, or for float weights or blocks of files";
    case RAPT_BAD_W_ZEROS:
      return "options->w_zeros is set for other weights than RAPT_U4 and RAPT_U8, with w_codebook, or with packed "
             "weights; w_zeros is given for packed weights without zeros; or qzeros is null, or has a zero of 256";
    case RAPT_BAD_W_OFFSETS:
      return "options->w_offsets is set for float weights or packed weights, or w_offsets is given for packed weights "
             "without offsets";
    case RAPT_BAD_W_CODEBOOK:
      return "options->w_codebook is set for other weights than RAPT_U4 or with packed weights; w_codebook is given for "
             "packed weights without a codebook; or a codebook in RAPT_ARITHMETIC_I8 is not integers from -128 to 127";
    case RAPT_BAD_X_SCALES:
      return "options->x_scales is null for x of RAPT_I8, or set for another type";
    case RAPT_BAD_X_GROUP:
      return "options->x_group is set in another arithmetic than RAPT_ARITHMETIC_I8, or is no multiple of the "
             "scale group (512 if scale_group is 0)";
    case RAPT_BAD_SCALES:
      return "scales is null";
    case RAPT_BAD_GATE:
      return "gate or dgate is null";
    case RAPT_BAD_UP:
      return "up or dup is null";
    case RAPT_BAD_GATE_STRIDE:
      return "options->gate_stride is smaller than a row";
    case RAPT_BAD_UP_STRIDE:
      return "options->up_stride is smaller than a row";
    case RAPT_BAD_ACTIVATION:
      return "options->activation is not one of rapt_activation";
    case RAPT_BAD_Y_STRIDES:
      return "options->y_strides let two rows of y overlap, or lack a stride";
    case RAPT_BAD_LAYOUT:
      return "options->layout is not one of enum rapt_rope_layout";
    case RAPT_BAD_ROTARY_DIM:
      return "options->rotary_dim (head_dim if it is 0) is odd, 0 or larger than head_dim";
    case RAPT_BAD_FREQUENCIES:
      return "frequencies is null, or a frequency is NaN or has a magnitude above 1024";
    case RAPT_BAD_POSITIONS:
      return "a position is below -2^24 or above 2^24, options->first_position is set with positions, "
             "positions_stride without, or positions_stride is smaller than a row";
    case RAPT_BAD_ATTENTION_FACTOR:
      return "options->attention_factor is not a normal number of the arithmetic type";
    case RAPT_BAD_BASE:
      return "options->base is not above 1 and at most 2^512";
    case RAPT_BAD_SCALING:
      return "options->scaling is not one of enum rapt_rope_scaling";
    case RAPT_BAD_SCALING_FACTOR:
      return "options->factor is not a positive normal number, or is set without a scaling";
    case RAPT_BAD_ORIGINAL_LENGTH:
      return "options->original_max_position_embeddings is 0, or is set for a scaling without it";
    case RAPT_BAD_FREQ_FACTORS:
      return "options->low_freq_factor is not positive, high_freq_factor is not above it, or one is set for "
             "another scaling than RAPT_ROPE_SCALING_LLAMA3";
    case RAPT_BAD_BETAS:
      return "options->beta_slow is not positive, beta_fast is not above it, or one is set for another "
             "scaling than RAPT_ROPE_SCALING_YARN";
    case RAPT_BAD_TRUNCATE:
      return "options->no_truncate is set for another scaling than RAPT_ROPE_SCALING_YARN";
    case RAPT_BAD_MSCALE:
      return "options->mscale or mscale_all_dim is not a positive normal number, is set without the other, or "
             "for another scaling than RAPT_ROPE_SCALING_YARN";
    case RAPT_BAD_EPS:
      return "eps is negative, infinite, NaN, or neither 0 nor a normal number";
    case RAPT_BAD_WEIGHT:
      return "weight_plus_one is set without a weight, or for layer_norm, or weights for another bag than RAPT_BAG_SUM";
    case RAPT_BAD_BIAS:
      return "bias is set for rms_norm or RAPT_CONVOLUTION_DW, which have none, or bias_type or bias_slopes without it";
    case RAPT_BAD_RESIDUAL_STRIDE:
      return "residual_stride is smaller than a row, or set without a residual";
    case RAPT_BAD_NORM_DBIAS:
      return "dbias is set for rms_norm_backward, which has no bias";
    case RAPT_BAD_ACCUMULATE:
      return "accumulate is set without dweight or dbias";
    case RAPT_BAD_NORM_MEAN:
      return "options->mean or mean_rest is set for rms_norm, or rstd or mean_rest for a gradient without mean";
    case RAPT_BAD_RSTD:
      return "options->mean is set without options->rstd";
    case RAPT_BAD_PARAM:
      return "param is null";
    case RAPT_BAD_GRAD:
      return "grad is null";
    case RAPT_BAD_STATE:
      return "exp_avg, exp_avg_sq or momentum_buffer is null, or momentum_buffer is set without options->momentum";
    case RAPT_BAD_STEP:
      return "options->step is 0, and the first step is 1";
    case RAPT_BAD_LR:
      return "options->lr is negative, NaN or too large";
    case RAPT_BAD_DECAY_RATES:
      return "options->beta1 or beta2 is negative, NaN or not below 1";
    case RAPT_BAD_WEIGHT_DECAY:
      return "options->weight_decay is negative, NaN or too large, or decay_in_gradient is set without it";
    case RAPT_BAD_MOMENTUM:
      return "options->momentum or dampening is NaN or too large, or dampening, nesterov or first_step is set without momentum";
    case RAPT_BAD_KIND:
      return "options->kind is not one of rapt_random_kind";
    case RAPT_BAD_PROBABILITY:
      return "options->probability is not between 0 and 1, or set for another kind than RAPT_RANDOM_KEEP";
    case RAPT_BAD_RESULT:
      return "options->result is not one of rapt_convolution_result";
    case RAPT_BAD_GROUPS:
      return "options->groups does not divide in_channels and out_channels";
    case RAPT_BAD_EXPERTS:
      return "experts is null, or experts->size is not the size of rapt_expert_options in a release";
    case RAPT_BAD_EXPERT_OFFSETS:
      return "offsets of experts is null, does not begin at 0, decreases, or does not end at options->rows";
    case RAPT_BAD_EXPERT_STRIDE:
      return "experts->w_stride is negative, no multiple of an element, smaller than packed weights, or 0 with "
             "packed weights or options->w_strides";
    case RAPT_BAD_IDS:
      return "ids is null, or one of them is not below the number of experts";
    case RAPT_BAD_IDS_STRIDE:
      return "ids_stride is smaller than top_k";
    case RAPT_BAD_WEIGHTS_STRIDE:
      return "options->weights_stride is smaller than top_k, or set without weights";
    case RAPT_BAD_OPERATION:
      return "options->operation is not one of rapt_reduction, or of rapt_bag_operation";
    case RAPT_BAD_REDUCED:
      return "options->reduced has a bit for a dimension at or above options->dims";
    case RAPT_BAD_CORRECTION:
      return "options->correction is infinite or NaN, or set for another operation than RAPT_VARIANCE";
    case RAPT_BAD_MEAN:
      return "options->mean is set for another operation than RAPT_VARIANCE";
    case RAPT_BAD_ROWS:
      return "a number in rows is not below options->out_features, count is above it without rows, or x_rows or y_rows of "
             "the options is set for a batch, or max_rows for another bag than RAPT_BAG_MAX";
    case RAPT_BAD_DIMS:
      return "dims is 0 or above RAPT_MAX_DIMS (of convolutions: RAPT_MAX_CONVOLVED, of batches: RAPT_MAX_BATCH_DIMS), or in_size, taps, stride, "
             "dilation, pad_before or pad_after has an entry at or beyond it";
    case RAPT_BAD_Z_STRIDES:
      return "a stride of options->z_strides is 0 or negative where others are set, or set for a function that does not read z";
    case RAPT_BAD_FUNCTION:
      return "options->function is not one of rapt_map_function";
    case RAPT_BAD_INPUTS:
      return "y or z is null for a function that reads it, or set for one that does not";
    case RAPT_BAD_PARAMETERS:
      return "options->alpha, beta or gamma is set for a function without it, or is NaN";
    case RAPT_BAD_KV_STARTS:
      return "an entry of options->kv_starts is negative, above the sequence's length, no multiple of 16 with pages or "
             "of 64 with packed keys, or kv_starts is set with kv_offsets";
    case RAPT_BAD_KEY_LISTS:
      return "an entry of options->key_lists is below -1 or not below options->cache_len, or key_lists is set with "
             "kv_offsets, kv_starts, block_table or packed_keys, or for gradients";
    case RAPT_BAD_KEY_LIST_STRIDES:
      return "a stride of options->key_lists or of options->key_list_lengths is 0 or negative, or set without its array";
    case RAPT_BAD_KEY_LIST_LENGTHS:
      return "an entry of options->key_list_lengths is negative or larger than options->kv_len, or key_list_lengths is "
             "set with kv_lengths or without key_lists";
    case RAPT_BAD_QUERIES_PER_LIST:
      return "options->queries_per_list or options->key_list_lengths is set with causal, window_left, window_right, "
             "window_chunk or alibi_slopes, or queries_per_list without key_lists";
    case RAPT_BAD_CACHE_LEN:
      return "options->cache_len is 0 with key_lists, or set without key_lists";
    case RAPT_BAD_Q_STARTS:
      return "an entry of options->q_starts is negative or larger than options->q_len, or q_starts is set with "
             "q_offsets";
    case RAPT_BAD_METRIC:
      return "options->metric is not one of rapt_metric_kind";
    case RAPT_BAD_TOP_K:
      return "options->k is 0 for rapt_top_k, or set for rapt_metric_rows";
    case RAPT_BAD_Q_STRIDE:
      return "options->q_stride is smaller than a row";
    case RAPT_BAD_OUT_STRIDE:
      return "options->out_stride is smaller than a row of the output";
    case RAPT_BAD_BATCH_STRIDE:
      return "a batch_stride of the options is smaller than a sequence or a problem";
    case RAPT_BAD_A:
      return "a is null";
    case RAPT_BAD_B:
      return "b is null";
    case RAPT_BAD_A_STRIDE:
      return "options->a_stride is smaller than a row";
    case RAPT_BAD_B_STRIDE:
      return "options->b_stride is smaller than a row";
    case RAPT_BAD_STATE_STRIDE:
      return "options->state_stride is smaller than a token";
    case RAPT_BAD_AXIS:
      return "options->axis is not below options->dims";
    case RAPT_BAD_TARGET:
      return "options->target is null, or an entry is neither a class nor options->ignore_index";
    case RAPT_BAD_LABEL_SMOOTHING:
      return "options->label_smoothing is not between 0 and 1";
    case RAPT_BAD_DECAY:
      return "options->decay_per_key is set without options->g";
    case RAPT_BAD_G_STRIDES:
      return "a stride of options->g_strides is 0 or negative where others are set, or set without g";
    case RAPT_BAD_BETA_STRIDES:
      return "a stride of options->beta_strides is 0 or negative where others are set, or set without beta";
    case RAPT_BAD_L2_NORM:
      return "options->l2_norm is not one of rapt_l2_norm";
    case RAPT_BAD_STATE_STRIDES:
      return "options->state_strides or final_strides, or gradients->dfinal_strides or dstate_strides, is set without its "
             "array, has neither a key nor a value stride of 1, or lets elements coincide";
    case RAPT_BAD_STATE_WINDOW:
      return "options->state_window or window_stride is set without final_state, or window_stride without a window";
    case RAPT_BAD_DG:
      return "gradients->dg is set without options->g, or dg_strides without dg, or they let elements coincide";
    case RAPT_BAD_DBETA:
      return "gradients->dbeta is set without options->beta, or dbeta_strides without dbeta, or they let elements coincide";
    case RAPT_BAD_INDICES:
      return "indices is null, or an index is below -1 or not below options->out_rows, of bags options->rows";
  }
  return nullptr;
}

}  // namespace

#define RAPT_TEXT_(x) #x
#define RAPT_TEXT(x) RAPT_TEXT_(x)

const char *rapt_version(void) {
  return RAPT_TEXT(RAPT_VERSION_MAJOR) "." RAPT_TEXT(RAPT_VERSION_MINOR) "." RAPT_TEXT(RAPT_VERSION_PATCH);
}

unsigned rapt_bits_version(void) { return RAPT_BITS_VERSION; }

const char *rapt_status_text(rapt_status status) {
  const char *const text = text_of(status);
  return text != nullptr ? text : "not a status of rapt";
}
