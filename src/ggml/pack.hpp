// Weights on their way into a packed buffer.
#pragma once

#include "ggml/buffer.hpp"

namespace rapt_ggml {

// Packs the whole tensor t from data in ggml's layout into t->data, on several threads where it is large.
void pack(Tensor t, const std::byte *data);

}  // namespace rapt_ggml
