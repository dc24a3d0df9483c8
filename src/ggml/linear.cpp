// MUL_MAT and MUL_MAT_ID: dst[n, m] = sum over k of src0[k, n] * src1[k, m]. src0 has the weights [inputs, outputs], so
// both are rapt's linear layer. MUL_MAT_ID chooses one of several matrices for each row: the experts of a layer.
#include "ggml/linear.hpp"

#include <rapt/parallel.hpp>

#include "ggml/buffer.hpp"
#include "ggml/ops.hpp"
#include "ggml/pack.hpp"

namespace rapt_ggml {

namespace {

// Weights with whole rows of blocks, packed or as the file has them.
bool supports_weights(Tensor w) {
  if (is_packed(w)) return !w->view_src;  // the rows of a view are somewhere else there
  // The loader asks with an empty buffer where a weight should lie: where it is packed.
  if (w->buffer && w->buffer->size == 0 && place_of(w) == Place::plain && packing_of(w)) return false;
  if (is_float(w)) return has_whole_strides(w);
  return host_decodes(w->type) && has_dense_rows(w) && w->nb[1] >= row_bytes(w);
}

// Precisions are lower limits, and the hint of a Hadamard matrix changes no result. [3] is ggml 0.25's precision of
// src1.
bool supports_precision(Tensor op) { return op->op_params[2] == 0; }

// The stride of rows in one matrix of t. A single row has none, and any will do.
std::ptrdiff_t row_step(Tensor t) {
  return t->ne[1] == 1 ? std::max<std::ptrdiff_t>(stride(t, 0), 1) * t->ne[0] : stride(t, 1);
}

// The weights of the matrices of a tensor: packed, in place, or packed for one op.
class Weights {
 public:
  explicit Weights(Tensor w) : w_(w), layer_(layer_of(w)) {
    if (!is_packed(w) && is_float(w)) return;
    packing_ = is_packed(w) ? packing_of(w) : packing_for_op(w);
    if (!packing_) throw Failure("weights have a shape that cannot be packed");
    layer_ = packing_->options;
    packed_ = bytes_of(w);
    if (is_packed(w)) return;
    is_missing_.assign(extent(w, 2) * extent(w, 3), true);
    packed_ = memory_.bytes(is_missing_.size() * packing_->matrix_bytes);
    say_once(
        GGML_LOG_LEVEL_WARN,
        "some weights are not in RAPT's memory, and are packed for each use: leave -ngl, -ot and --n-cpu-moe out");
  }

  // Packs matrix i where that is needed, so that set() may be called.
  void prepare(Engine &engine, std::size_t i) {
    if (is_missing_.empty() || !is_missing_[i]) return;
    pack_matrix(engine, w_, matrix(i), *packing_, packed_ + i * packing_->matrix_bytes);
    is_missing_[i] = false;
  }
  const rapt_linear_options &layer() const { return layer_; }
  void set(Layer &layer, std::size_t i) const {
    layer.w = packing_ ? packed_ + i * packing_->matrix_bytes : matrix(i);
    if (!packing_) layer.options.w_strides = {row_step(w_), stride(w_, 0)};
  }
  // All matrices, which are experts. Those of experts without rows are not packed.
  void set(Engine &engine, Layer &layer, rapt_expert_options &experts) {
    for (std::size_t i = 0; i < experts.experts; ++i) {
      if (experts.offsets[i] != experts.offsets[i + 1]) prepare(engine, i);
    }
    set(layer, 0);
    experts.w_stride = static_cast<std::ptrdiff_t>(packing_ ? packing_->matrix_bytes : w_->nb[2]);
  }

 private:
  std::byte *matrix(std::size_t i) const {
    return bytes_of(w_) + i % extent(w_, 2) * w_->nb[2] + i / extent(w_, 2) * w_->nb[3];
  }

  Tensor w_;
  rapt_linear_options layer_;
  std::optional<Packing> packing_;
  std::byte *packed_ = nullptr;
  Scratch memory_;
  std::vector<bool> is_missing_;
};

}  // namespace

void run_layers(Engine &engine, std::span<const Layer> layers) {
  const std::span<rapt::LinearWork> work = engine.op_memory.take<rapt::LinearWork>(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    work[i] = {layers[i].x, layers[i].w, layers[i].y, &layers[i].options};
  }
  must(rapt::parallel_linear(work, engine.threads(), engine.parts(), engine.memory()));
}

bool supports_mul_mat(Tensor op) {
  const Tensor w = op->src[0], x = op->src[1];
  if (!supports_precision(op) || op->type != GGML_TYPE_F32 || !has_dense_rows(op) || !has_whole_strides(op))
    return false;
  if (x->ne[0] == 0 || !has_whole_strides(x) || !supports_weights(w)) return false;
  return x->type == GGML_TYPE_F32 || (is_float(x) && is_float(w));
}

namespace {

// The call for rows of x that are equally far from each other, without weights.
Layer layer_of_rows(const rapt_linear_options &options, Tensor x, const std::byte *from, std::byte *to,
                    std::size_t rows, std::ptrdiff_t x_stride, std::ptrdiff_t y_stride) {
  Layer layer = {from, nullptr, to, options};
  layer.options.rows = rows;
  layer.options.x_type = *float_type(x->type);
  layer.options.x_strides = {x_stride, stride(x, 0)};
  layer.options.y_stride = y_stride;
  return layer;
}

std::optional<Layer> layer_of_all_rows(Tensor op, const Weights &weights) {
  const Tensor w = op->src[0], x = op->src[1];
  const std::optional<std::ptrdiff_t> x_stride = row_stride(x), y_stride = row_stride(op);
  if (extent(w, 2) * extent(w, 3) != 1 || !x_stride || !y_stride) return std::nullopt;
  Layer layer =
      layer_of_rows(weights.layer(), x, bytes_of(x), bytes_of(op), row_count(op), *x_stride, *y_stride);
  weights.set(layer, 0);
  return layer;
}

// A mean or a choice of tokens: x is an input of the graph, and w is made of tokens. Each output is a sum in the order
// of tokens, without those whose factor is 0. So a text has the same sum wherever the batch has put it.
bool is_sum_over_tokens(Tensor op) {
  const Tensor x = op->src[1];
  return (root_of(x)->flags & GGML_TENSOR_FLAG_INPUT) && root_of(x)->op == GGML_OP_NONE &&
         op->src[0]->op != GGML_OP_NONE && op->src[0]->type == GGML_TYPE_F32 && x->type == GGML_TYPE_F32;
}

void sum_over_tokens(Graph &graph, Tensor op) {
  const Tensor w = op->src[0], x = op->src[1];
  const std::size_t tokens = extent(x, 0), outputs = extent(op, 0);
  graph.engine.split(row_count(op), tokens * element_count(op), [&](std::size_t first, std::size_t last) {
    std::vector<std::size_t> chosen;
    for (std::size_t r = first; r < last; ++r) {
      const std::byte *const factors = row_of(x, r), *const matrix =
                                                         repeated_row(w, op, r) -
                                                         r % extent(op, 1) % extent(w, 1) * w->nb[1];
      const auto factor = [&](std::size_t token) {
        return *reinterpret_cast<const float *>(factors + token * x->nb[0]);
      };
      chosen.clear();
      for (std::size_t token = 0; token < tokens; ++token) {
        if (factor(token) != 0) chosen.push_back(token);
      }
      for (std::size_t i = 0; i < outputs; ++i) {
        double sum = 0;
        for (const std::size_t token : chosen) {
          const float weight = *reinterpret_cast<const float *>(matrix + i * w->nb[1] + token * w->nb[0]);
          sum += static_cast<double>(factor(token)) * static_cast<double>(weight);
        }
        elements_of<float>(row_of(op, r))[i] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace

std::optional<Layer> layer_of_op(Tensor op) {
  if (op->op != GGML_OP_MUL_MAT || is_sum_over_tokens(op)) return std::nullopt;
  if (!is_packed(op->src[0]) && !is_float(op->src[0])) return std::nullopt;
  return layer_of_all_rows(op, Weights(op->src[0]));
}

void mul_mat(Graph &graph, Tensor op) {
  if (is_sum_over_tokens(op)) return sum_over_tokens(graph, op);
  const Tensor w = op->src[0], x = op->src[1];
  Weights weights(w);
  const std::size_t n2 = extent(op, 2), n3 = extent(op, 3), of_w2 = extent(w, 2), of_w3 = extent(w, 3);
  std::vector<Layer> layers;
  weights.prepare(graph.engine, 0);
  if (const std::optional<Layer> layer = layer_of_all_rows(op, weights)) {
    layers.push_back(*layer);
  } else {
    for (std::size_t i = 0; i < n2 * n3; ++i) {
      const std::size_t i2 = i % n2, i3 = i / n2, matrix = i2 / (n2 / of_w2) + i3 / (n3 / of_w3) * of_w2;
      layers.push_back(layer_of_rows(weights.layer(), x, bytes_of(x) + i2 * x->nb[2] + i3 * x->nb[3],
                                     bytes_of(op) + i2 * op->nb[2] + i3 * op->nb[3], extent(op, 1),
                                     row_step(x), row_step(op)));
      weights.prepare(graph.engine, matrix);
      weights.set(layers.back(), matrix);
    }
  }
  run_layers(graph.engine, layers);
}

// src1 is [inputs, slots or 1, tokens], the numbers of matrices are [slots, tokens], and dst is [outputs, slots,
// tokens].
bool supports_mul_mat_id(Tensor op) {
  const Tensor w = op->src[0], x = op->src[1], ids = op->src[2];
  if (!supports_precision(op) || op->type != GGML_TYPE_F32 || !is_contiguous(op) ||
      ids->type != GGML_TYPE_I32)
    return false;
  if (x->type != GGML_TYPE_F32 || x->ne[0] == 0 || x->ne[3] != 1 || !has_whole_strides(x) ||
      !has_dense_rows(x))
    return false;
  if (x->nb[1] == 0 || (x->ne[1] > 1 && x->nb[2] % x->nb[1] != 0)) return false;
  if (!has_dense_rows(ids) || !has_whole_strides(ids)) return false;
  const bool follow_each_other = w->nb[2] == extent(w, 1) * w->nb[1];
  return w->ne[3] == 1 && supports_weights(w) && (is_packed(w) || is_float(w) || follow_each_other);
}

void mul_mat_id(Graph &graph, Tensor op) {
  const Tensor w = op->src[0], x = op->src[1], ids = op->src[2];
  Engine &engine = graph.engine;
  const std::size_t slots = extent(ids, 0), entries = slots * extent(ids, 1), of_x = extent(x, 1);
  // Rows of x are counted in steps of one slot, or of one token if all slots share its row.
  const std::size_t step = of_x > 1 ? x->nb[1] : x->nb[2],
                    steps_of_token = of_x > 1 ? x->nb[2] / x->nb[1] : 1;
  rapt_expert_options experts = RAPT_EXPERT_OPTIONS_INIT;
  experts.experts = extent(w, 2);
  std::size_t *const offsets = engine.op_memory.take<std::size_t>(experts.experts + 1).data();
  experts.offsets = offsets;
  const std::span<std::size_t> x_rows = engine.op_memory.take<std::size_t>(entries),
                               y_rows = engine.op_memory.take<std::size_t>(entries);
  must(rapt_expert_lists(elements_of<std::int32_t>(bytes_of(ids)), stride(ids, 1), extent(ids, 1), slots,
                         experts.experts, offsets, nullptr, y_rows.data()));
  for (std::size_t r = 0; r < entries; ++r)
    x_rows[r] = y_rows[r] / slots * steps_of_token + y_rows[r] % slots % of_x;
  Weights weights(w);
  Layer layer = {x->data, nullptr, op->data, weights.layer()};
  layer.options.rows = entries;
  layer.options.x_strides = {static_cast<std::ptrdiff_t>(step / element_size(x)), 1};
  layer.options.y_stride = static_cast<std::ptrdiff_t>(extent(op, 0));
  layer.options.x_rows = x_rows.data();
  layer.options.y_rows = y_rows.data();
  weights.set(engine, layer, experts);
  must(rapt::parallel_linear_experts({layer.x, layer.w, layer.y, &layer.options}, &experts, engine.threads(),
                                     engine.parts(), engine.memory()));
}

}  // namespace rapt_ggml
