// The ops that the plugin computes: ops.cpp has the table. An op that is not claimed is computed by another backend.
#pragma once

#include "ggml/graph.hpp"

namespace rapt_ggml {

// Whether the plugin computes this op, with these types, shapes and parameters.
bool supports(Tensor op);

// Whether an op does more than to name a part of a tensor.
bool has_work(Tensor op);

// Computes the op. Throws Failure where it cannot.
void compute(Graph &graph, ggml_tensor *op);

// Each group of ops has a file. supports_...() looks at what the table's row does not say.
bool supports_mul_mat(Tensor op);
bool supports_mul_mat_id(Tensor op);
void mul_mat(Graph &graph, Tensor op);
void mul_mat_id(Graph &graph, Tensor op);

bool supports_attention(Tensor op);
bool supports_soft_max(Tensor op);
void attention(Graph &graph, Tensor op);
void soft_max(Graph &graph, Tensor op);

bool supports_norm(Tensor op);
void norm(Graph &graph, Tensor op);
void l2_norm(Graph &graph, Tensor op);

bool supports_delta_rule(Tensor op);
void delta_rule(Graph &graph, Tensor op);

bool supports_ssm_conv(Tensor op);
void ssm_conv(Graph &graph, Tensor op);

bool supports_rope(Tensor op);
void rope(Graph &graph, Tensor op);

bool supports_glu(Tensor op);
bool supports_unary(Tensor op);
void glu(Graph &graph, Tensor op);
void unary(Graph &graph, Tensor op);

bool supports_arithmetic(Tensor op);
bool supports_elementwise(Tensor op);
bool supports_add_id(Tensor op);
void add(Graph &graph, Tensor op);
void subtract(Graph &graph, Tensor op);
void multiply(Graph &graph, Tensor op);
void divide(Graph &graph, Tensor op);
void add_id(Graph &graph, Tensor op);
void square(Graph &graph, Tensor op);
void square_root(Graph &graph, Tensor op);
void scale(Graph &graph, Tensor op);
void clamp(Graph &graph, Tensor op);

bool supports_get_rows(Tensor op);
bool supports_set_rows(Tensor op);
bool supports_copy(Tensor op);
bool supports_layout(Tensor op);
void get_rows(Graph &graph, Tensor op);
void set_rows(Graph &graph, Tensor op);
void copy(Graph &graph, Tensor op);
void concat(Graph &graph, Tensor op);
void repeat(Graph &graph, Tensor op);
void pad(Graph &graph, Tensor op);
void fill(Graph &graph, Tensor op);

bool supports_row_sum(Tensor op);
bool supports_order(Tensor op);
void sum_rows(Graph &graph, Tensor op);
void argsort(Graph &graph, Tensor op);
void argmax(Graph &graph, Tensor op);

}  // namespace rapt_ggml
