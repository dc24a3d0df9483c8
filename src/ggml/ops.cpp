#include "ggml/ops.hpp"

#include "ggml/buffer.hpp"

namespace rapt_ggml {

namespace {

bool always(Tensor) { return true; }

struct Op {
  ggml_op op;
  int params;  // how many op_params are known: one behind them that is not 0 asks for what this row does not know
  bool (*supports)(Tensor op);
  void (*compute)(Graph &graph, Tensor op);  // null: there is nothing to do
};

constexpr int all_params = GGML_MAX_OP_PARAMS / sizeof(std::int32_t);

constexpr Op ops[] = {
    {GGML_OP_NONE, all_params, always, nullptr},
    {GGML_OP_RESHAPE, all_params, always, nullptr},
    {GGML_OP_VIEW, all_params, always, nullptr},
    {GGML_OP_PERMUTE, all_params, always, nullptr},
    {GGML_OP_TRANSPOSE, all_params, always, nullptr},
    {GGML_OP_MUL_MAT, 4, supports_mul_mat, mul_mat},
    {GGML_OP_MUL_MAT_ID, 4, supports_mul_mat_id, mul_mat_id},
    {GGML_OP_FLASH_ATTN_EXT, 5, supports_attention, attention},
    {GGML_OP_SOFT_MAX, 2, supports_soft_max, soft_max},
    {GGML_OP_RMS_NORM, 1, supports_norm, norm},
    {GGML_OP_NORM, 1, supports_norm, norm},
    {GGML_OP_L2_NORM, 1, supports_norm, l2_norm},
    {GGML_OP_GATED_DELTA_NET, 1, supports_delta_rule, delta_rule},
    {GGML_OP_SSM_CONV, 0, supports_ssm_conv, ssm_conv},
    {GGML_OP_ROPE, 15, supports_rope, rope},
    {GGML_OP_GLU, 4, supports_glu, glu},
    {GGML_OP_UNARY, 1, supports_unary, unary},
    {GGML_OP_LOG, 0, supports_unary, unary},
    {GGML_OP_SIN, 0, supports_unary, unary},
    {GGML_OP_COS, 0, supports_unary, unary},
    {GGML_OP_ADD, 0, supports_arithmetic, add},
    {GGML_OP_SUB, 0, supports_arithmetic, subtract},
    {GGML_OP_MUL, 0, supports_arithmetic, multiply},
    {GGML_OP_DIV, 0, supports_arithmetic, divide},
    {GGML_OP_ADD_ID, 0, supports_add_id, add_id},
    {GGML_OP_SQR, 0, supports_elementwise, square},
    {GGML_OP_SQRT, 0, supports_elementwise, square_root},
    {GGML_OP_SCALE, 2, supports_elementwise, scale},
    {GGML_OP_CLAMP, 2, supports_elementwise, clamp},
    {GGML_OP_GET_ROWS, 0, supports_get_rows, get_rows},
    {GGML_OP_SET_ROWS, 0, supports_set_rows, set_rows},
    {GGML_OP_CPY, 0, supports_copy, copy},
    {GGML_OP_CONT, 0, supports_copy, copy},
    {GGML_OP_DUP, 0, supports_copy, copy},
    {GGML_OP_CONCAT, 1, supports_layout, concat},
    {GGML_OP_REPEAT, 0, supports_layout, repeat},
    {GGML_OP_PAD, 9, supports_layout, pad},
    {GGML_OP_FILL, 1, supports_layout, fill},
    {GGML_OP_SUM_ROWS, 0, supports_row_sum, sum_rows},
    {GGML_OP_MEAN, 0, supports_row_sum, sum_rows},
    {GGML_OP_ARGSORT, 1, supports_order, argsort},
    {GGML_OP_TOP_K, 0, supports_order, argsort},
    {GGML_OP_ARGMAX, 0, supports_order, argmax},
};

const Op *row_of_op(ggml_op wanted) {
  for (const Op &op : ops) {
    if (op.op == wanted) return &op;
  }
  return nullptr;
}

bool knows_params(Tensor t, int params) {
  for (int i = params; i < all_params; ++i) {
    if (t->op_params[i] != 0) return false;
  }
  return true;
}

// Packed weights are read by linear layers, as a whole, and row by row.
bool reads_plain_memory(Tensor op) {
  const bool takes_packed =
      op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_MUL_MAT_ID || op->op == GGML_OP_GET_ROWS;
  for (const ggml_tensor *const &source : op->src) {
    if (source && is_packed(source) && !(takes_packed && &source == &op->src[0])) return false;
  }
  return !is_packed(op);
}

}  // namespace

bool supports(Tensor op) {
  const Op *const row = row_of_op(op->op);
  return row && knows_params(op, row->params) && (!row->compute || reads_plain_memory(op)) &&
         row->supports(op);
}

bool has_work(Tensor op) {
  const Op *const row = row_of_op(op->op);
  return !row || row->compute;
}

void compute(Graph &graph, ggml_tensor *op) {
  const Op *const row = row_of_op(op->op);
  if (!row) throw Failure("no such op");
  if (!row->compute || is_empty(op)) return;
  if (!supports(op)) throw Failure("these types, shapes or parameters are not supported");
  row->compute(graph, op);
}

}  // namespace rapt_ggml
