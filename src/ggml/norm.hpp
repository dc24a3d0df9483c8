// A norm and the multiplication that follows it.
#pragma once

#include "ggml/graph.hpp"

namespace rapt_ggml {

// Writes the norm of op's rows to y, times a weight for each column where there is one: the bits of NORM or RMS_NORM
// and MUL.
void norm_rows(Graph &graph, Tensor op, Tensor y, const void *weight);

}  // namespace rapt_ggml
