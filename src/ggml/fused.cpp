#include "ggml/fused.hpp"

#include <cstdlib>
#include <cstring>

#include "ggml/linear.hpp"
#include "ggml/norm.hpp"
#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

// RAPT_GGML_FUSE=0 is for the test that compares.
bool fusing_is_on() {
  static const bool on = [] {
    const char *const value = std::getenv("RAPT_GGML_FUSE");
    return !value || std::strcmp(value, "0") != 0;
  }();
  return on;
}

bool is_disjoint(Tensor a, Tensor b) {
  const std::byte *const first = bytes_of(a), *const other = bytes_of(b);
  return first + span_bytes(a) <= other || other + span_bytes(b) <= first;
}

bool is_same_memory(Tensor a, Tensor b) {
  return a->data == b->data && same_shape(a, b) && a->type == b->type &&
         std::memcmp(a->nb, b->nb, sizeof a->nb) == 0;
}

bool is_row(Tensor t, Tensor of) {
  return t->type == GGML_TYPE_F32 && t->ne[0] == of->ne[0] && row_count(t) == 1 && has_dense_rows(t);
}

// The source of a sum or product that is not `known`.
Tensor other_source(Tensor op, Tensor known) { return op->src[0] == known ? op->src[1] : op->src[0]; }

}  // namespace

FusedGraph::FusedGraph(std::span<ggml_tensor *const> nodes) : nodes_(nodes) {
  if (!fusing_is_on()) return;
  for (const Tensor op : nodes) {
    if (op->op == GGML_OP_MUL_MAT || op->op == GGML_OP_RMS_NORM || op->op == GGML_OP_NORM)
      uses_.emplace(op, 0);
  }
  for (const Tensor op : nodes) {
    for (const ggml_tensor *source : op->src) {
      if (!source) continue;
      if (const auto found = uses_.find(source); found != uses_.end()) ++found->second;
    }
  }
}

bool FusedGraph::is_computed(std::size_t i) const {
  return i < nodes_.size() && (nodes_[i]->flags & GGML_TENSOR_FLAG_COMPUTE) && !is_empty(nodes_[i]);
}

bool FusedGraph::is_only_for(std::size_t i, std::size_t user) const {
  if (!is_computed(user) || (nodes_[i]->flags & GGML_TENSOR_FLAG_OUTPUT)) return false;
  const Tensor op = nodes_[i], next = nodes_[user];
  if ((next->src[0] != op && next->src[1] != op) || next->src[0] == next->src[1] || !same_shape(op, next))
    return false;
  const auto found = uses_.find(op);
  return found != uses_.end() && found->second == 1;
}

std::size_t FusedGraph::compute_norm(Graph &graph, std::size_t i) const {
  const Tensor op = nodes_[i];
  if (!is_only_for(i, i + 1) || nodes_[i + 1]->op != GGML_OP_MUL || !supports(op) || !supports(nodes_[i + 1]))
    return 0;
  const Tensor y = nodes_[i + 1], weight = other_source(y, op), x = op->src[0];
  if (!is_row(weight, op) || !(is_disjoint(y, x) || is_same_memory(y, x))) return 0;
  norm_rows(graph, op, y, weight->data);
  return 2;
}

std::size_t FusedGraph::compute_layers(Graph &graph, std::size_t i) const {
  const Tensor op = nodes_[i];
  std::optional<Layer> layer = supports(op) ? layer_of_op(op) : std::nullopt;
  if (!layer) return 0;
  const Tensor x = op->src[1];
  if (is_only_for(i, i + 1) && nodes_[i + 1]->op == GGML_OP_ADD && supports(nodes_[i + 1])) {
    const Tensor y = nodes_[i + 1], added = other_source(y, op);
    const std::optional<std::ptrdiff_t> y_stride = row_stride(y), stride_of_added = row_stride(added);
    const bool is_bias = is_row(added, op);
    if (is_disjoint(y, x) && y_stride &&
        (is_bias ? is_disjoint(y, added) : same_shape(added, op) && stride_of_added.has_value()) &&
        (is_bias || is_disjoint(y, added) || is_same_memory(y, added))) {
      layer->y = y->data;
      layer->options.y_stride = *y_stride;
      if (is_bias) {
        layer->options.bias = added->data;
      } else {
        layer->options.add = added->data;
        layer->options.add_stride = *stride_of_added;
      }
      run_layers(graph.engine, {&*layer, 1});
      return 2;
    }
  }
  // With one thread a list has no use.
  std::vector<Layer> layers = {*layer};
  std::size_t end = i + 1;
  for (std::size_t next = end; graph.engine.threads() > 1 && next < nodes_.size(); ++next) {
    const Tensor other = nodes_[next];
    if (!has_work(other)) continue;
    if (!is_computed(next) || other->op != GGML_OP_MUL_MAT || other->src[1] != x ||
        is_only_for(next, next + 1))
      break;
    const std::optional<Layer> more = supports(other) ? layer_of_op(other) : std::nullopt;
    if (!more) break;
    layers.push_back(*more);
    end = next + 1;
  }
  run_layers(graph.engine, layers);
  return end - i;
}

std::size_t FusedGraph::compute(Graph &graph, std::size_t i) const {
  if (!is_computed(i)) return 1;
  std::size_t done = 0;
  if (fusing_is_on()) {
    const ggml_op op = nodes_[i]->op;
    if (op == GGML_OP_RMS_NORM || op == GGML_OP_NORM) done = compute_norm(graph, i);
    if (op == GGML_OP_MUL_MAT) done = compute_layers(graph, i);
  }
  if (done > 0) return done;
  rapt_ggml::compute(graph, nodes_[i]);
  return 1;
}

}  // namespace rapt_ggml
