// The workspace of attention, in elements of the arithmetic type.
#pragma once

#include <cstddef>

#include "contract/attention.hpp"

namespace rapt {

inline constexpr std::size_t attention_workspace_alignment = 64;

// A tile's queries and two of its outputs, by dimension; scores and exclusions of a block.
constexpr std::size_t attention_workspace_length(std::size_t qk_dim, std::size_t v_dim) {
  return attention_tile_rows * (qk_dim + 2 * v_dim + 2 * attention_block);
}

// A tile's queries and outputs with their gradients; scores, products of values and the softcap's slopes of a
// block; and room for the keys of a panel past the block.
constexpr std::size_t backward_workspace_length(std::size_t qk_dim, std::size_t v_dim) {
  return attention_tile_rows * (2 * qk_dim + 2 * v_dim + 3 * attention_block + 8);
}

}  // namespace rapt
