// Linear layers as one list of tasks.
#pragma once

#include <rapt/rapt.h>

#include <optional>
#include <span>

#include "ggml/engine.hpp"

namespace rapt_ggml {

struct Layer {
  const void *x, *w;
  void *y;
  rapt_linear_options options;
};

// The layer that a MUL_MAT is, if it is one call without packing: one matrix of weights for all rows.
std::optional<Layer> layer_of_op(Tensor op);

// Computes all layers on the engine's threads. No layer reads what another one writes.
void run_layers(Engine &engine, std::span<const Layer> layers);

}  // namespace rapt_ggml
