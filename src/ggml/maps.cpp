// UNARY, GLU, LOG, SIN and COS: functions of each element. Those that rapt has no kernel for are composed of IEEE
// operations and its functions.
#include <cmath>

#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

template <class F>
void each(const float *x, float *y, std::size_t n, const F &f) {
  for (std::size_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <rapt_map_function function>
void map_of_rapt(const float *x, float *y, std::size_t n) {
  rapt_map_options options = RAPT_MAP_OPTIONS_INIT;
  options.function = function, options.dims = 1, options.shape[0] = n;
  must(rapt_map(x, nullptr, nullptr, y, &options));
}

// Calls f(i, sigmoid(a x(i))) for each i, in order.
template <class X, class F>
void each_sigmoid(std::size_t n, float a, const X &x, const F &f) {
  constexpr std::size_t block = 512;
  float sigmoids[block];
  for (std::size_t first = 0; first < n; first += block) {
    const std::size_t count = std::min(block, n - first);
    for (std::size_t i = 0; i < count; ++i) sigmoids[i] = a * x(first + i);
    map_of_rapt<RAPT_MAP_SIGMOID>(sigmoids, sigmoids, count);
    for (std::size_t i = 0; i < count; ++i) f(first + i, sigmoids[i]);
  }
}
// x sigmoid(1.702 x)
constexpr float of_gelu_quick = 1.702F;
void gelu_quick(const float *x, float *y, std::size_t n) {
  each_sigmoid(
      n, of_gelu_quick, [&](std::size_t i) { return x[i]; },
      [&](std::size_t i, float sigmoid) { y[i] = x[i] * sigmoid; });
}

float away_from_zero(float v) {  // halves away from zero, as C's round
  const float whole = std::trunc(v);
  return std::fabs(v - whole) >= 0.5F ? whole + std::copysign(1.0F, v) : whole;
}

using Map = void (*)(const float *x, float *y, std::size_t n);
template <auto f>
void map_each(const float *x, float *y, std::size_t n) {
  each(x, y, n, f);
}
struct Unary {
  ggml_unary_op op;
  Map map;
};
constexpr Unary unary_maps[] = {
    {GGML_UNARY_OP_ABS, map_each<([](float v) { return std::fabs(v); })>},
    {GGML_UNARY_OP_SGN, map_each<([](float v) { return v > 0   ? 1.0F
                                                       : v < 0 ? -1.0F
                                                               : 0.0F; })>},
    {GGML_UNARY_OP_NEG, map_each<([](float v) { return -v; })>},
    {GGML_UNARY_OP_STEP, map_each<([](float v) { return v > 0 ? 1.0F : 0.0F; })>},
    {GGML_UNARY_OP_TANH, map_of_rapt<RAPT_MAP_TANH>},
    {GGML_UNARY_OP_ELU, map_of_rapt<RAPT_MAP_ELU>},
    {GGML_UNARY_OP_RELU, map_each<([](float v) { return v > 0 ? v : 0.0F; })>},
    {GGML_UNARY_OP_SIGMOID, map_of_rapt<RAPT_MAP_SIGMOID>},
    {GGML_UNARY_OP_GELU, rapt_gelu_tanh_f32},
    {GGML_UNARY_OP_GELU_QUICK, gelu_quick},
    {GGML_UNARY_OP_SILU, rapt_silu_f32},
    {GGML_UNARY_OP_HARDSWISH,
     map_each<([](float v) { return v * std::min(1.0F, std::max(0.0F, (v + 3.0F) / 6.0F)); })>},
    {GGML_UNARY_OP_HARDSIGMOID,
     map_each<([](float v) { return std::min(1.0F, std::max(0.0F, (v + 3.0F) / 6.0F)); })>},
    {GGML_UNARY_OP_EXP, rapt_exp_f32},
    {GGML_UNARY_OP_EXPM1, map_of_rapt<RAPT_MAP_EXPM1>},
    {GGML_UNARY_OP_SOFTPLUS, map_of_rapt<RAPT_MAP_SOFTPLUS>},
    {GGML_UNARY_OP_GELU_ERF, rapt_gelu_f32},
    {GGML_UNARY_OP_FLOOR, map_each<([](float v) { return std::floor(v); })>},
    {GGML_UNARY_OP_CEIL, map_each<([](float v) { return std::ceil(v); })>},
    {GGML_UNARY_OP_ROUND, map_each<away_from_zero>},
    {GGML_UNARY_OP_TRUNC, map_each<([](float v) { return std::trunc(v); })>},
};

Map map_of(Tensor op) {
  switch (op->op) {
    case GGML_OP_LOG:
      return map_of_rapt<RAPT_MAP_LOG>;
    case GGML_OP_SIN:
      return map_of_rapt<RAPT_MAP_SIN>;
    case GGML_OP_COS:
      return map_of_rapt<RAPT_MAP_COS>;
    default:
      break;
  }
  for (const Unary &unary : unary_maps) {
    if (unary.op == int_param(op, 0)) return unary.map;
  }
  return nullptr;
}

std::optional<rapt_activation> activation_of(Tensor op) {
  switch (int_param(op, 0)) {
    case GGML_GLU_OP_SWIGLU:
      return RAPT_SILU;
    case GGML_GLU_OP_GEGLU:
      return RAPT_GELU_TANH;
    case GGML_GLU_OP_GEGLU_ERF:
      return RAPT_GELU;
    default:
      return std::nullopt;
  }
}

// The gated functions that rapt_gated() has not.
using Gated = void (*)(const float *gate, const float *up, float *y, std::size_t n, float alpha, float limit);
struct Glu {
  ggml_glu_op op;
  Gated function;
};
// y may be gate or up. A NaN stays one.
void swiglu_clamped(const float *gate, const float *up, float *y, std::size_t n, float alpha, float limit,
                    float added) {
  const auto low = [&](std::size_t i) { return gate[i] > limit ? limit : gate[i]; };
  const auto multiply = [&](std::size_t i, float sigmoid) {
    const float bounded = up[i] > limit ? limit : up[i] < -limit ? -limit : up[i];
    y[i] = low(i) * sigmoid * (bounded + added);
  };
  each_sigmoid(n, alpha, low, multiply);
}
constexpr Glu glus[] = {
    {GGML_GLU_OP_REGLU,
     [](const float *gate, const float *up, float *y, std::size_t n, float, float) {
       for (std::size_t i = 0; i < n; ++i) y[i] = gate[i] > 0 ? gate[i] * up[i] : 0.0F;
     }},
    {GGML_GLU_OP_GEGLU_QUICK,
     [](const float *gate, const float *up, float *y, std::size_t n, float, float) {
       each_sigmoid(
           n, of_gelu_quick, [&](std::size_t i) { return gate[i]; },
           [&](std::size_t i, float sigmoid) { y[i] = gate[i] * sigmoid * up[i]; });
     }},
    {GGML_GLU_OP_SWIGLU_OAI, [](const float *gate, const float *up, float *y, std::size_t n, float alpha,
                                float limit) { swiglu_clamped(gate, up, y, n, alpha, limit, 1); }},
    {GGML_GLU_OP_SWIGLU_CLAMP, [](const float *gate, const float *up, float *y, std::size_t n, float,
                                  float limit) { swiglu_clamped(gate, up, y, n, 1, limit, 0); }},
};
const Glu *glu_of(Tensor op) {
  for (const Glu &glu : glus) {
    if (glu.op == int_param(op, 0)) return &glu;
  }
  return nullptr;
}

}  // namespace

bool supports_unary(Tensor op) {
  const Tensor x = op->src[0];
  return map_of(op) && x->type == GGML_TYPE_F32 && op->type == GGML_TYPE_F32 && has_dense_rows(x) &&
         has_dense_rows(op);
}

void unary(Graph &graph, Tensor op) {
  const Tensor x = op->src[0];
  const Map map = map_of(op);
  const std::size_t cols = extent(x, 0);
  if (is_contiguous(x) && is_contiguous(op)) {
    return graph.engine.split(element_count(x), 8 * element_count(x),
                              [&](std::size_t first, std::size_t last) {
                                map(elements_of<float>(bytes_of(x)) + first,
                                    elements_of<float>(bytes_of(op)) + first, last - first);
                              });
  }
  graph.engine.each(row_count(x), 8 * element_count(x), [&](std::size_t r) {
    map(elements_of<float>(row_of(x, r)), elements_of<float>(row_of(op, r)), cols);
  });
}

bool supports_glu(Tensor op) {
  const Tensor a = op->src[0], b = op->src[1];
  if (a->type != GGML_TYPE_F32 || op->type != GGML_TYPE_F32 || (b && b->type != GGML_TYPE_F32)) return false;
  // Swapped halves are another order of the same parts, which only one tensor has.
  if (b && int_param(op, 1) != 0) return false;
  if (int_param(op, 2) != 0 && int_param(op, 0) != GGML_GLU_OP_SWIGLU_OAI) return false;
  if (int_param(op, 3) != 0 && int_param(op, 0) != GGML_GLU_OP_SWIGLU_OAI &&
      int_param(op, 0) != GGML_GLU_OP_SWIGLU_CLAMP)
    return false;
  return (activation_of(op) || glu_of(op)) && has_dense_rows(a) && has_dense_rows(op) &&
         (!b || has_dense_rows(b)) && has_whole_strides(a) && has_whole_strides(op) &&
         (!b || has_whole_strides(b));
}

void glu(Graph &graph, Tensor op) {
  const Tensor a = op->src[0], b = op->src[1];
  const std::size_t cols = extent(op, 0), half = cols * sizeof(float);
  const bool swapped = int_param(op, 1) != 0;
  const auto gate = [&](std::size_t r) {
    return elements_of<float>(row_of(a, r) + (!b && swapped ? half : 0));
  };
  const auto up = [&](std::size_t r) {
    return elements_of<float>(b ? row_of(b, r) : row_of(a, r) + (swapped ? 0 : half));
  };
  const auto y = [&](std::size_t r) { return elements_of<float>(row_of(op, r)); };
  const std::optional<std::ptrdiff_t> gate_stride = row_stride(a), up_stride = row_stride(b ? b : a),
                                      y_stride = row_stride(op);
  const std::optional<rapt_activation> activation = activation_of(op);
  if (activation && row_count(op) == 1) {
    return graph.engine.split(cols, 8 * cols, [&](std::size_t first, std::size_t last) {
      rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
      options.activation = *activation, options.rows = 1, options.cols = last - first;
      must(rapt_gated(gate(0) + first, up(0) + first, y(0) + first, &options));
    });
  }
  graph.engine.split(row_count(op), 8 * element_count(op), [&](std::size_t first, std::size_t last) {
    rapt_gated_options options = RAPT_GATED_OPTIONS_INIT;
    options.cols = cols;
    if (activation && gate_stride && up_stride && y_stride) {
      options.activation = *activation, options.rows = last - first;
      options.gate_stride = *gate_stride, options.up_stride = *up_stride, options.y_stride = *y_stride;
      return must(rapt_gated(gate(first), up(first), y(first), &options));
    }
    for (std::size_t r = first; r < last; ++r) {
      if (activation) {
        options.activation = *activation, options.rows = 1;
        must(rapt_gated(gate(r), up(r), y(r), &options));
      } else {
        glu_of(op)->function(gate(r), up(r), y(r), cols, float_param(op, 2), float_param(op, 3));
      }
    }
  });
}

}  // namespace rapt_ggml
