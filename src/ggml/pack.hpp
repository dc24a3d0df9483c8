// Weights on their way into packed memory.
#pragma once

#include "ggml/buffer.hpp"
#include "ggml/engine.hpp"

namespace rapt_ggml {

// Whether weights of this type are packed as the numbers that they are. The host decodes others, and these become f16.
bool is_exact(ggml_type type);

// Packs the whole tensor t from data in ggml's layout into t->data, on several threads where it is large.
void pack(Tensor t, const std::byte *data);

// Packs one matrix of t on the engine's threads. `packed` has packing.matrix_bytes bytes.
void pack_matrix(Engine &engine, Tensor t, const std::byte *matrix, const Packing &packing,
                 std::byte *packed);

// Whether unpack() gives the bytes of the file back.
bool can_unpack_to_file(Tensor t);

// Writes rows [first, first + rows) of t, counted over all its matrices, in ggml's layout.
void unpack(Tensor t, std::size_t first, std::size_t rows, std::byte *to);

}  // namespace rapt_ggml
