// The texts of statuses, and the version.
#include <cstddef>
#include <iterator>

#include "dispatch/dispatch.hpp"
#include "rapt/rapt.h"

namespace {

struct Text {
  rapt_status status;
  const char *text;
};

// In the order of the enumeration. unusable_isa_text() makes the text that is null here.
constexpr Text texts[] = {
    {RAPT_OK, "success"},
    {RAPT_BAD_X, "x is null"},
    {RAPT_BAD_Y, "y is null"},
    {RAPT_BAD_DY, "dy is null"},
    {RAPT_BAD_DX, "dx is null"},
    {RAPT_BAD_OUT, "out is null"},
    {RAPT_BAD_X_STRIDE, "x_stride is smaller than a row"},
    {RAPT_BAD_Y_STRIDE, "y_stride is smaller than a row"},
    {RAPT_BAD_DY_STRIDE, "dy_stride is smaller than a row"},
    {RAPT_BAD_DX_STRIDE, "dx_stride is smaller than a row"},
    {RAPT_BAD_OVERLAP, "the output overlaps an input without being exactly that input"},
    {RAPT_BAD_SIZE, "a size does not fit the address space, or a span is shorter than its shape"},
    {RAPT_BAD_OPTIONS_SIZE,
     "options->size is not the size of the struct in a release: start from RAPT_SOFTMAX_OPTIONS_INIT or "
     "RAPT_ATTENTION_OPTIONS_INIT"},
    {RAPT_BAD_EMPTY_ROWS, "options->empty_rows_are_zero is set for logsumexp, where it has no effect"},
    {RAPT_BAD_SCALE,
     "the scale is not a normal number of the arithmetic type, or above its largest / log2(e)"},
    {RAPT_BAD_SOFTCAP,
     "softcap is negative, or softcap or scale / softcap is not a normal number of the arithmetic type"},
    {RAPT_BAD_BIAS_STRIDE, "options->bias_stride is smaller than a row, or set without a bias"},
    {RAPT_BAD_MASK_STRIDE, "options->mask_stride is smaller than a row, or set without a mask"},
    {RAPT_BAD_ROW_LENGTHS, "an entry of options->row_lengths is larger than cols"},
    {RAPT_BAD_ISA_NAME, "no instruction set of that name is compiled in: see rapt_isa_name"},
    {RAPT_BAD_ISA_FOR_THIS_CPU, nullptr},
    {RAPT_BAD_Q, "q is null"},
    {RAPT_BAD_K, "k is null"},
    {RAPT_BAD_V, "v is null"},
    {RAPT_BAD_OPTIONS, "options is null"},
    {RAPT_BAD_HEADS, "options->q_heads is not a multiple of options->kv_heads"},
    {RAPT_BAD_DIM, "options->qk_dim or options->v_dim is 0 or too large"},
    {RAPT_BAD_SHAPE, "options->batch or options->q_heads is 0"},
    {RAPT_BAD_TYPE,
     "the element types of q, k, v and out do not go together, or are not those of the ranges"},
    {RAPT_BAD_ARITHMETIC, "the element types do not have options->arithmetic"},
    {RAPT_BAD_KV_SCALES,
     "options->k_scales or v_scales is null for RAPT_I8, they or scale_group are set for another type, or "
     "scale_group is "
     "not 0, 32, 64 or 128 or does not divide qk_dim and v_dim"},
    {RAPT_BAD_Q_STRIDES,
     "options->q_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT repeats)"},
    {RAPT_BAD_K_STRIDES,
     "options->k_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT repeats)"},
    {RAPT_BAD_V_STRIDES,
     "options->v_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT repeats)"},
    {RAPT_BAD_OUT_STRIDES, "options->out_strides let two rows of out overlap, or lack a stride"},
    {RAPT_BAD_LSE_STRIDES,
     "options->lse_strides let two elements coincide, lack a stride, or are set without lse"},
    {RAPT_BAD_BIAS_STRIDES,
     "options->bias_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT repeats), "
     "or is set without bias"},
    {RAPT_BAD_MASK_STRIDES,
     "options->mask_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT repeats), "
     "or is set without mask"},
    {RAPT_BAD_QUERY_SCALES,
     "options->query_scale_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
     "repeats), or is set without query_scales"},
    {RAPT_BAD_CAUSAL, "options->causal is not one of enum rapt_causal"},
    {RAPT_BAD_CAUSAL_OFFSET,
     "options->causal_offset is set without RAPT_CAUSAL_OFFSET, or its magnitude is above 2^60"},
    {RAPT_BAD_KV_LENGTHS, "an entry of options->kv_lengths is negative or larger than options->kv_len"},
    {RAPT_BAD_OFFSETS,
     "options->q_offsets or kv_offsets decrease, or hold a sequence longer than options->q_len or kv_len"},
    {RAPT_BAD_BLOCK_TABLE,
     "options->block_table has a negative page, lacks pages for a sequence, or is set with kv_offsets or "
     "backwards; or block_table_stride is set without it"},
    {RAPT_BAD_PAGE_SIZE,
     "options->page_size is not a multiple of 16, is 0 beside block_table, or is set without it"},
    {RAPT_BAD_PACKED_KEYS,
     "options->packed_keys is set with kv_offsets, with pages that are no multiple of 64 keys, or backwards"},
    {RAPT_BAD_PARTIALS, "partials is null"},
    {RAPT_BAD_WORKSPACE,
     "workspace is null, too small (see rapt_attention_workspace), or overlaps another array"},
    {RAPT_BAD_TASKS, "first is above last, or last above the number of tasks"},
    {RAPT_BAD_GRADIENTS,
     "gradients is null, or gradients->size is not the size of the struct in a release: start from "
     "RAPT_ATTENTION_GRADIENTS_INIT"},
    {RAPT_BAD_LSE, "options->lse is null: the backward call reads it"},
    {RAPT_BAD_DOUT, "gradients->dout is null"},
    {RAPT_BAD_DQ, "gradients->dq is null"},
    {RAPT_BAD_DK, "gradients->dk is null"},
    {RAPT_BAD_DV, "gradients->dv is null"},
    {RAPT_BAD_DOUT_STRIDES,
     "gradients->dout_strides has a stride of 0 or below for a dimension longer than 1 (RAPT_REPEAT "
     "repeats)"},
    {RAPT_BAD_DQ_STRIDES, "gradients->dq_strides let two rows of dq overlap"},
    {RAPT_BAD_DK_STRIDES, "gradients->dk_strides let two rows of dk overlap"},
    {RAPT_BAD_DV_STRIDES, "gradients->dv_strides let two rows of dv overlap"},
    {RAPT_BAD_DBIAS,
     "gradients->dbias is set without options->bias, or options->bias_strides let two of its rows partly "
     "overlap"},
    {RAPT_BAD_DSINKS, "gradients->dsinks is set without options->sinks"},
};

constexpr bool texts_are_in_order() {
  for (std::size_t i = 0; i < std::size(texts); ++i) {
    if (texts[i].status != static_cast<rapt_status>(i)) return false;
  }
  return texts[std::size(texts) - 1].status == RAPT_BAD_DSINKS;
}
static_assert(texts_are_in_order());

}  // namespace

#define RAPT_TEXT_(x) #x
#define RAPT_TEXT(x) RAPT_TEXT_(x)

const char *rapt_version(void) {
  return RAPT_TEXT(RAPT_VERSION_MAJOR) "." RAPT_TEXT(RAPT_VERSION_MINOR) "." RAPT_TEXT(RAPT_VERSION_PATCH);
}

unsigned rapt_bits_version(void) { return RAPT_BITS_VERSION; }

const char *rapt_status_text(rapt_status status) {
  if (status == RAPT_BAD_ISA_FOR_THIS_CPU) return rapt::unusable_isa_text();
  const auto index = static_cast<std::size_t>(status);
  return index < std::size(texts) ? texts[index].text : "not a status of rapt";
}
