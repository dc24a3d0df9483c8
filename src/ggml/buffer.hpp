// The plugin's memory: a buffer of plain tensors in ggml's layout, and one of packed weights.
//
// Both are host memory that does not say so: llama.cpp would read a file straight into memory that is_host, and
// set_tensor, which packs weights, would not be called.
#pragma once

#include <ggml-backend-impl.h>
#include <rapt/rapt.h>

#include <map>
#include <optional>
#include <vector>

#include "ggml/memory.hpp"
#include "ggml/numbers.hpp"
#include "ggml/tensor.hpp"

namespace rapt_ggml {

ggml_backend_buffer_type_t plain_buffer_type();
ggml_backend_buffer_type_t packed_buffer_type();

// Whether a tensor lies in memory that an op may read in place.
enum class Place { plain, packed, host, foreign, none };
Place place_of(Tensor t);

// The numbers of the cache that a tensor is a part of; null where the cache is not in a plain buffer of ours.
BufferNumbers *numbers_around(Tensor t);

// Whether a tensor in a plain buffer may be a cache. Weights, and the tensors of graphs, have other usages.
bool may_be_cache(Tensor root);

// How a weight is packed: each matrix of its dimensions 2 and 3 apart, `matrix_bytes` from one to the next.
struct Packing {
  rapt_linear_options options;  // of a call, without the shape of x
  std::size_t matrix_bytes;
};

// Whether a packed buffer packs a tensor of this shape and type: a matrix of weights. It keeps other tensors as they
// are.
bool is_packable(Tensor t);
std::optional<Packing> packing_of(Tensor t);
// The same for any matrices of weights, which an op may pack for itself.
std::optional<Packing> packing_for_op(Tensor t);

// Whether the memory of t, or of the tensor that t is a view of, has packed weights: only MUL_MAT, MUL_MAT_ID and
// GET_ROWS read them.
bool is_packed(Tensor t);

// The options of a layer with the weights t: types, features and arithmetic.
rapt_linear_options layer_of(Tensor t);

}  // namespace rapt_ggml
