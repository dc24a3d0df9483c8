// ggml's attention masks. They are added to scores: f16 or f32, [keys, queries, heads or 1, batch or 1].
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ggml/graph.hpp"

namespace rapt_ggml {

struct Mask {
  std::size_t keys, queries, heads, batch;
  bool only_excludes;                 // all numbers are 0 or -inf
  std::vector<std::uint8_t> visible;  // [batch][heads][queries][keys], 0 where the number is -inf

  const std::uint8_t *plane(std::size_t b, std::size_t head) const {
    return visible.data() + (b % batch * heads + head % heads) * queries * keys;
  }
};

// Converts a mask once for all layers.
std::shared_ptr<const Mask> mask_of(Graph &graph, Tensor mask);

// The numbers of a row of a mask, as f32.
void mask_row(Tensor mask, std::size_t b, std::size_t head, std::size_t query, float *row);

// The factor of the mask in a head, for ALiBi: 1 without it.
std::vector<float> slopes_of(float max_bias, std::size_t heads);

}  // namespace rapt_ggml
