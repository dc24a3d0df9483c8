// Arithmetic on elements of f32, each operation rounded once.
#include <cmath>

#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

// dst = f(a, b), where b repeats along the dimensions in which it is shorter.
template <class F>
void combine(Graph &graph, Tensor op, const F &f) {
  const Tensor a = op->src[0], b = op->src[1];
  const std::size_t cols = extent(op, 0), of_b = extent(b, 0);
  const auto part = [&](std::size_t r, std::size_t first, std::size_t last) {
    const float *const x = elements_of<float>(row_of(a, r)), *const y =
                                                                 elements_of<float>(repeated_row(b, op, r));
    float *const z = elements_of<float>(row_of(op, r));
    if (of_b == cols) {
      for (std::size_t i = first; i < last; ++i) z[i] = f(x[i], y[i]);
    } else if (of_b == 1) {
      for (std::size_t i = first; i < last; ++i) z[i] = f(x[i], y[0]);
    } else {
      for (std::size_t i = first; i < last; ++i) z[i] = f(x[i], y[i % of_b]);
    }
  };
  if (row_count(op) == 1) {
    return graph.engine.split(cols, cols, [&](std::size_t first, std::size_t last) { part(0, first, last); });
  }
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) { part(r, 0, cols); });
}

template <class F>
void map(Graph &graph, Tensor op, const F &f) {
  const Tensor x = op->src[0];
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    const float *const from = elements_of<float>(row_of(x, r));
    float *const to = elements_of<float>(row_of(op, r));
    for (std::size_t i = 0; i < extent(op, 0); ++i) to[i] = f(from[i]);
  });
}

bool is_dense_f32(Tensor t) { return t->type == GGML_TYPE_F32 && has_dense_rows(t); }

}  // namespace

bool supports_arithmetic(Tensor op) {
  return is_dense_f32(op) && is_dense_f32(op->src[0]) && is_dense_f32(op->src[1]);
}
bool supports_elementwise(Tensor op) { return is_dense_f32(op) && is_dense_f32(op->src[0]); }

void add(Graph &graph, Tensor op) {
  combine(graph, op, [](float x, float y) { return x + y; });
}
void subtract(Graph &graph, Tensor op) {
  combine(graph, op, [](float x, float y) { return x - y; });
}
void multiply(Graph &graph, Tensor op) {
  combine(graph, op, [](float x, float y) { return x * y; });
}
void divide(Graph &graph, Tensor op) {
  combine(graph, op, [](float x, float y) { return x / y; });
}

void square(Graph &graph, Tensor op) {
  map(graph, op, [](float x) { return x * x; });
}
void square_root(Graph &graph, Tensor op) {
  map(graph, op, [](float x) { return std::sqrt(x); });
}

// x * scale + bias, each rounded; without a bias nothing is added, so that -0 stays.
void scale(Graph &graph, Tensor op) {
  const float factor = float_param(op, 0), bias = float_param(op, 1);
  if (bias == 0) {
    map(graph, op, [=](float x) { return x * factor; });
  } else {
    map(graph, op, [=](float x) {
      const float product = x * factor;
      return product + bias;
    });
  }
}

// NaN stays NaN.
void clamp(Graph &graph, Tensor op) {
  const float low = float_param(op, 0), high = float_param(op, 1);
  map(graph, op, [=](float x) { return x < low ? low : x > high ? high : x; });
}

// ADD_ID: dst[:, slot, token] = a[:, slot, token] + b[:, ids[slot, token]]
bool supports_add_id(Tensor op) {
  return supports_arithmetic(op) && op->src[2]->type == GGML_TYPE_I32 && op->ne[3] == 1;
}
void add_id(Graph &graph, Tensor op) {
  const Tensor a = op->src[0], b = op->src[1], ids = op->src[2];
  graph.engine.each(row_count(op), element_count(op), [&](std::size_t r) {
    const auto [slot, token, none] = place_of_row(op, r);
    const std::int32_t id =
        *elements_of<std::int32_t>(bytes_of(ids) + slot * ids->nb[0] + token * ids->nb[1]);
    if (id < 0 || id >= b->ne[1]) throw Failure("a row's number is out of range");
    const float *const x = elements_of<float>(row_of(a, r));
    const float *const y = elements_of<float>(bytes_of(b) + static_cast<std::size_t>(id) * b->nb[1]);
    float *const z = elements_of<float>(row_of(op, r));
    for (std::size_t i = 0; i < extent(op, 0); ++i) z[i] = x[i] + y[i];
  });
}

}  // namespace rapt_ggml
