// SSM_CONV: the short convolution of state-space models, whose last taps are tokens before those of the batch.
//
//   x [taps - 1 + tokens, channels, batch]   w [taps, channels]   dst [channels, tokens, batch]
#include <rapt/parallel.hpp>

#include "ggml/ops.hpp"

namespace rapt_ggml {

bool supports_ssm_conv(Tensor op) {
  const Tensor x = op->src[0], w = op->src[1];
  for (const Tensor t : {x, w, op}) {
    if (t->type != GGML_TYPE_F32 || is_empty(t) || !has_dense_rows(t) || !has_whole_strides(t)) return false;
  }
  return is_contiguous(w) && w->ne[1] == x->ne[1] && op->ne[0] == x->ne[1] && op->ne[2] == x->ne[2] &&
         x->ne[0] == op->ne[1] + w->ne[0] - 1 && x->ne[3] == 1 && w->ne[2] == 1 && w->ne[3] == 1;
}

void ssm_conv(Graph &graph, Tensor op) {
  const Tensor x = op->src[0], w = op->src[1];
  rapt_convolution_options options = RAPT_CONVOLUTION_OPTIONS_INIT;
  options.dims = 1;
  options.batch = extent(x, 2);
  options.in_channels = options.out_channels = options.groups = extent(x, 1);
  options.in_size[0] = extent(x, 0);
  options.taps[0] = extent(w, 0);
  options.x_strides[0] = stride(x, 2), options.x_strides[1] = stride(x, 1), options.x_strides[2] = 1;
  options.y_strides[0] = stride(op, 2), options.y_strides[1] = 1, options.y_strides[2] = stride(op, 1);
  must(rapt::parallel_convolution(bytes_of(x), bytes_of(w), bytes_of(op), options, graph.engine.threads(),
                                  graph.engine.parts(), graph.engine.memory()));
}

}  // namespace rapt_ggml
