// Sums and orders of rows: SUM_ROWS, MEAN, ARGSORT, TOP_K and ARGMAX.
#include <algorithm>
#include <numeric>

#include "ggml/ops.hpp"

namespace rapt_ggml {

bool supports_row_sum(Tensor op) {
  return op->type == GGML_TYPE_F32 && op->src[0]->type == GGML_TYPE_F32 && has_dense_rows(op->src[0]);
}

// One sum in double, in order, rounded once; a mean is divided before that.
void sum_rows(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const std::size_t cols = extent(x, 0);
  graph.engine.each(row_count(x), element_count(x), [&](std::size_t r) {
    const float *const row = elements_of<float>(row_of(x, r));
    double sum = 0;
    for (std::size_t i = 0; i < cols; ++i) sum += static_cast<double>(row[i]);
    if (op->op == GGML_OP_MEAN) sum /= static_cast<double>(cols);
    *elements_of<float>(row_of(op, r)) = static_cast<float>(sum);
  });
}

bool supports_order(Tensor op) {
  return op->type == GGML_TYPE_I32 && op->src[0]->type == GGML_TYPE_F32 && has_dense_rows(op->src[0]) &&
         has_dense_rows(op);
}

// Equal elements keep their order, and NaN is last, so that the order is one.
void argsort(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const std::size_t cols = extent(x, 0), wanted = extent(op, 0);
  const bool descending = op->op == GGML_OP_TOP_K || int_param(op, 0) == GGML_SORT_ORDER_DESC;
  graph.engine.split(row_count(x), 16 * element_count(x), [&](std::size_t first, std::size_t last) {
    std::vector<std::int32_t> order(cols);
    for (std::size_t r = first; r < last; ++r) {
      const float *const row = elements_of<float>(row_of(x, r));
      std::iota(order.begin(), order.end(), 0);
      const auto before = [&](std::int32_t a, std::int32_t b) {
        const float u = row[a], v = row[b];
        if (u != u || v != v) return v != v && (u == u || a < b);
        if (u != v) return descending ? u > v : u < v;
        return a < b;
      };
      std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wanted), order.end(),
                        before);
      std::copy_n(order.begin(), wanted, elements_of<std::int32_t>(row_of(op, r)));
    }
  });
}

void argmax(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  graph.engine.each(extent(x, 1), element_count(x), [&](std::size_t r) {
    elements_of<std::int32_t>(bytes_of(op))[r] =
        static_cast<std::int32_t>(rapt_argmax_f32(elements_of<float>(row_of(x, r)), extent(x, 0)));
  });
}

}  // namespace rapt_ggml
