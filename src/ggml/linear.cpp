// MUL_MAT and MUL_MAT_ID: dst[n, m] = sum over k of src0[k, n] * src1[k, m]. src0 has the weights [inputs, outputs], so both
// are rapt's linear layer. MUL_MAT_ID chooses one of several matrices for each row: the experts of a layer.
#include "ggml/linear.hpp"

#include "ggml/buffer.hpp"
#include "ggml/ops.hpp"
#include "ggml/unpacked.hpp"

namespace rapt_ggml {

namespace {

// Weights with whole rows of blocks, packed or as the file has them.
bool supports_weights(Tensor w) {
  if (place_of(w) == Place::packed) return packing_of(w).has_value();
  if (root_of(w)->buffer && place_of(root_of(w)) == Place::packed)
    return false;  // a view: rows are somewhere else there
  // The loader asks with an empty buffer where a weight should lie: where it is packed.
  if (w->buffer && w->buffer->size == 0 && place_of(w) == Place::plain && packing_of(w)) return false;
  if (is_float(w)) return has_whole_strides(w);
  return can_unpack(w->type) && has_dense_rows(w) && w->nb[1] >= row_bytes(w);
}

// Precisions are lower limits, and the hint of a Hadamard matrix changes no result. [3] is ggml 0.25's precision of src1.
bool supports_precision(Tensor op) { return op->op_params[2] == 0; }

rapt_matrix_strides strides_of(Tensor t) {
  const rapt_matrix_strides strides = {stride(t, 1), stride(t, 0)};
  return t->ne[1] == 1
             ? rapt_matrix_strides{stride(t, 0) * static_cast<std::ptrdiff_t>(t->ne[0]), strides.column}
             : strides;
}

// The weights of the matrices of a tensor: packed, in place, or unpacked for one op.
class Weights {
 public:
  explicit Weights(Tensor w) : w_(w), packing_(place_of(w) == Place::packed ? packing_of(w) : std::nullopt) {
    layer_ = packing_ ? packing_->options : layer_of(w);
    if (!packing_ && !is_float(w)) unpacked_.resize(extent(w, 2) * extent(w, 3));
  }

  // Unpacks matrix i, so that set() may be called.
  void prepare(std::size_t i) {
    if (i < unpacked_.size() && !unpacked_[i].weights()) unpacked_[i].fill(w_, matrix(i), 0, extent(w_, 1));
  }
  const rapt_linear_options &layer() const { return layer_; }
  void set(Layer &layer, std::size_t i) const {
    if (packing_) {
      layer.w = bytes_of(w_) + i * packing_->matrix_bytes;
    } else if (unpacked_.empty()) {
      layer.w = matrix(i);
      layer.options.w_strides = strides_of(w_);
    } else {
      layer.w = unpacked_[i].weights();
      unpacked_[i].set_arrays(layer.options);
    }
  }

 private:
  std::byte *matrix(std::size_t i) const {
    return bytes_of(w_) + i % extent(w_, 2) * w_->nb[2] + i / extent(w_, 2) * w_->nb[3];
  }

  Tensor w_;
  std::optional<Packing> packing_;
  rapt_linear_options layer_;
  std::vector<Unpacked> unpacked_;
};

}  // namespace

void run_layers(Engine &engine, std::span<const Layer> layers) {
  const std::span<std::size_t> first_task = engine.op_memory.take<std::size_t>(layers.size() + 1);
  std::size_t workspace_bytes = 0;
  first_task[0] = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    std::size_t tasks = 0, bytes = 0;
    must(rapt_linear_tasks(&layers[i].options, &tasks));
    must(rapt_linear_workspace(&layers[i].options, &bytes));
    first_task[i + 1] = first_task[i] + tasks;
    workspace_bytes = std::max(workspace_bytes, bytes);
  }
  must(engine.run_tasks(
      first_task.back(), workspace_bytes, [&](std::size_t first, std::size_t last, std::byte *workspace) {
        std::size_t i =
            static_cast<std::size_t>(std::upper_bound(first_task.begin(), first_task.end(), first) -
                                     first_task.begin()) -
            1;
        for (; i < layers.size() && first_task[i] < last; ++i) {
          const Layer &layer = layers[i];
          const std::size_t begin = std::max(first, first_task[i]), end = std::min(last, first_task[i + 1]);
          if (begin >= end) continue;
          const rapt_status status =
              rapt_linear_run(layer.x, layer.w, layer.y, &layer.options, begin - first_task[i],
                              end - first_task[i], workspace, workspace_bytes);
          if (status != RAPT_OK) return status;
        }
        return RAPT_OK;
      }));
}

bool supports_mul_mat(Tensor op) {
  const Tensor w = op->src[0], x = op->src[1];
  if (!supports_precision(op) || op->type != GGML_TYPE_F32 || !has_dense_rows(op) || !has_whole_strides(op))
    return false;
  if (x->ne[0] == 0 || !has_whole_strides(x) || !supports_weights(w)) return false;
  return x->type == GGML_TYPE_F32 || (is_float(x) && is_float(w));
}

void mul_mat(Graph &graph, Tensor op) {
  const Tensor w = op->src[0], x = op->src[1];
  Weights weights(w);
  const std::size_t n2 = extent(op, 2), n3 = extent(op, 3), of_w2 = extent(w, 2), of_w3 = extent(w, 3);
  // One matrix of weights for all rows of x: the rows are one call.
  const bool one_call = of_w2 * of_w3 == 1 && row_stride(x) && row_stride(op);
  std::vector<Layer> layers;
  layers.reserve(one_call ? 1 : n2 * n3);
  for (std::size_t i3 = 0; i3 < (one_call ? 1 : n3); ++i3) {
    for (std::size_t i2 = 0; i2 < (one_call ? 1 : n2); ++i2) {
      Layer layer = {bytes_of(x) + i2 * x->nb[2] + i3 * x->nb[3], nullptr,
                     bytes_of(op) + i2 * op->nb[2] + i3 * op->nb[3], weights.layer()};
      layer.options.rows = one_call ? row_count(op) : extent(op, 1);
      layer.options.x_type = *float_type(x->type);
      layer.options.x_strides = strides_of(x);
      layer.options.y_stride = op->ne[1] == 1 ? 0 : stride(op, 1);
      if (one_call) {
        layer.options.x_strides.row = *row_stride(x);
        layer.options.y_stride = *row_stride(op);
      }
      const std::size_t matrix = i2 / (n2 / of_w2) + i3 / (n3 / of_w3) * of_w2;
      weights.prepare(matrix);
      weights.set(layer, matrix);
      layers.push_back(layer);
    }
  }
  run_layers(graph.engine, layers);
}

// src1 is [inputs, slots or 1, tokens], the numbers of matrices are [slots, tokens], and dst is [outputs, slots, tokens].
bool supports_mul_mat_id(Tensor op) {
  const Tensor w = op->src[0], x = op->src[1], ids = op->src[2];
  if (!supports_precision(op) || op->type != GGML_TYPE_F32 || !is_contiguous(op) ||
      ids->type != GGML_TYPE_I32)
    return false;
  if (x->type != GGML_TYPE_F32 || x->ne[0] == 0 || x->ne[3] != 1 || !has_whole_strides(x) ||
      !has_dense_rows(x))
    return false;
  if (x->nb[1] == 0 || (x->ne[1] > 1 && x->nb[2] % x->nb[1] != 0)) return false;
  return w->ne[3] == 1 && supports_weights(w);
}

void mul_mat_id(Graph &graph, Tensor op) {
  const Tensor w = op->src[0], x = op->src[1], ids = op->src[2];
  const std::size_t slots = extent(ids, 0), tokens = extent(ids, 1), experts = extent(w, 2),
                    of_x = extent(x, 1);
  // Rows of x are counted in steps of one slot, or of one token if all slots share its row.
  const std::size_t step = of_x > 1 ? x->nb[1] : x->nb[2],
                    steps_of_token = of_x > 1 ? x->nb[2] / x->nb[1] : 1;
  std::vector<std::size_t> counts(experts + 1);
  const auto expert_of = [&](std::size_t token, std::size_t slot) {
    const std::int32_t id =
        *elements_of<std::int32_t>(bytes_of(ids) + slot * ids->nb[0] + token * ids->nb[1]);
    if (id < 0 || static_cast<std::size_t>(id) >= experts)
      throw Failure("an expert's number is out of range");
    return static_cast<std::size_t>(id);
  };
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t slot = 0; slot < slots; ++slot) ++counts[expert_of(token, slot) + 1];
  }
  for (std::size_t e = 0; e < experts; ++e) counts[e + 1] += counts[e];
  const std::span<std::size_t> x_rows = graph.engine.op_memory.take<std::size_t>(slots * tokens);
  const std::span<std::size_t> y_rows = graph.engine.op_memory.take<std::size_t>(slots * tokens);
  std::vector<std::size_t> next(counts.begin(), counts.end() - 1);
  for (std::size_t token = 0; token < tokens; ++token) {
    for (std::size_t slot = 0; slot < slots; ++slot) {
      const std::size_t at = next[expert_of(token, slot)]++;
      x_rows[at] = token * steps_of_token + (of_x > 1 ? slot % of_x : 0);
      y_rows[at] = token * slots + slot;
    }
  }
  Weights weights(w);
  std::vector<Layer> layers;
  for (std::size_t e = 0; e < experts; ++e) {
    if (counts[e] == counts[e + 1]) continue;
    Layer layer = {x->data, nullptr, op->data, weights.layer()};
    layer.options.rows = counts[e + 1] - counts[e];
    layer.options.x_strides = {static_cast<std::ptrdiff_t>(step / element_size(x)), 1};
    layer.options.y_stride = static_cast<std::ptrdiff_t>(extent(op, 0));
    layer.options.x_rows = &x_rows[counts[e]];
    layer.options.y_rows = &y_rows[counts[e]];
    weights.prepare(e);
    weights.set(layer, e);
    layers.push_back(layer);
  }
  run_layers(graph.engine, layers);
}

}  // namespace rapt_ggml
