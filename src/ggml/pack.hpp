// Weights on their way into a packed buffer.
#pragma once

#include "ggml/buffer.hpp"

namespace rapt_ggml {

// Packs the whole tensor t from data in ggml's layout into t->data, on several threads where it is large.
void pack(Tensor t, const std::byte *data);

// Whether unpack() gives the bytes of the file back.
bool can_unpack_to_file(Tensor t);

// Writes rows [first, first + rows) of t, counted over all its matrices, in ggml's layout.
void unpack(Tensor t, std::size_t first, std::size_t rows, std::byte *to);

}  // namespace rapt_ggml
