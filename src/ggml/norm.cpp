// RMS_NORM, NORM and L2_NORM of rows.
#include "ggml/norm.hpp"

#include <cmath>

#include "ggml/ops.hpp"

namespace rapt_ggml {

bool supports_norm(Tensor op) {
  const Tensor x = op->src[0];
  return x->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 && has_dense_rows(x) && has_dense_rows(op) &&
         has_whole_strides(x) && has_whole_strides(op);
}

void norm_rows(Graph &graph, Tensor op, Tensor y, const void *weight) {
  const Tensor x = op->src[0];
  rapt_norm_options options = RAPT_NORM_OPTIONS_INIT;
  options.cols = extent(x, 0);
  options.eps = float_param(op, 0);
  options.weight = weight;
  const auto function = op->op == GGML_OP_NORM ? rapt_layer_norm : rapt_rms_norm;
  const std::optional<std::ptrdiff_t> x_stride = row_stride(x), y_stride = row_stride(y);
  graph.engine.split(row_count(x), 2 * element_count(x), [&](std::size_t first, std::size_t last) {
    rapt_norm_options part = options;
    if (x_stride && y_stride) {
      part.rows = last - first;
      part.x_stride = *x_stride, part.y_stride = *y_stride;
      return must(function(row_of(x, first), row_of(y, first), &part));
    }
    const std::size_t n1 = extent(x, 1);
    part.x_stride = stride(x, 1), part.y_stride = stride(y, 1);
    for (std::size_t r = first; r < last; r += part.rows) {
      part.rows = std::min(last - r, n1 - r % n1);
      must(function(row_of(x, r), row_of(y, r), &part));
    }
  });
}

void norm(Graph &graph, Tensor op) { norm_rows(graph, op, op, nullptr); }

// y = x / max(sqrt(sum of squares), eps)
void l2_norm(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const std::size_t cols = extent(x, 0);
  const float eps = float_param(op, 0);
  graph.engine.each(row_count(x), 2 * element_count(x), [&](std::size_t r) {
    const float *const from = elements_of<float>(row_of(x, r));
    float *const to = elements_of<float>(row_of(op, r));
    const float length = std::max(std::sqrt(rapt_dot_f32(from, from, cols)), eps);
    for (std::size_t i = 0; i < cols; ++i) to[i] = from[i] / length;
  });
}

}  // namespace rapt_ggml
