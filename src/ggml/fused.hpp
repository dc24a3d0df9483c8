// Ops of a graph that are computed together, with the bits that they have one after the other:
//
//   RMS_NORM or NORM, MUL by a row of weights   one norm
//   MUL_MAT, ADD of a bias or a tensor          one linear layer
//   MUL_MATs of the same src1, next to each other   one list of tasks
//
// A result that is left out has one use, inside the graph, and is no output.
#pragma once

#include <span>
#include <unordered_map>

#include "ggml/graph.hpp"

namespace rapt_ggml {

class FusedGraph {
 public:
  explicit FusedGraph(std::span<ggml_tensor *const> nodes);

  // Computes node i, and those with it. Returns how many nodes are done.
  std::size_t compute(Graph &graph, std::size_t i) const;

 private:
  bool is_computed(std::size_t i) const;
  bool is_only_for(std::size_t i, std::size_t user) const;
  std::size_t compute_norm(Graph &graph, std::size_t i) const;
  std::size_t compute_layers(Graph &graph, std::size_t i) const;

  std::span<ggml_tensor *const> nodes_;
  std::unordered_map<Tensor, std::size_t> uses_;
};

}  // namespace rapt_ggml
