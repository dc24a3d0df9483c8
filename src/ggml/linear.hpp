// Linear layers as one list of tasks.
#pragma once

#include <rapt/rapt.h>

#include <span>

#include "ggml/engine.hpp"

namespace rapt_ggml {

struct Layer {
  const void *x, *w;
  void *y;
  rapt_linear_options options;
};

// Computes all layers on the engine's threads. No layer reads what another one writes.
void run_layers(Engine &engine, std::span<const Layer> layers);

}  // namespace rapt_ggml
