// Weights that are multiplied by again and again, packed for rapt_linear() on second sight, without gradients.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "kernels.hpp"

namespace rapt_torch {

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

struct PackedWeights {
  std::unique_ptr<void, Free> data;
  std::int64_t size;
};

using Packed = std::shared_ptr<const PackedWeights>;

// How a matrix of weights lies in the memory of a tensor.
struct Layout {
  std::int64_t inputs, outputs;
  std::int64_t input_stride, output_stride;
};

// Of the weights in a kernel's argument: null where the matrix itself is to be read.
Packed packed(const Tensor &argument, const Layout &of);

// Gives the memory of weights that have been packed back to the system, and says whether it has.
using Release = bool (*)(const void *data, std::size_t bytes);

// The most bytes of packed weights; -1 is no limit, and 0 packs nothing. `release` may be null.
void set_pack_limit(std::int64_t bytes, Release release);

void clear_packed();

std::int64_t packed_count();

}  // namespace rapt_torch
