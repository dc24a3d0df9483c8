// GATED_DELTA_NET: the gated delta rule of Qwen3-Next, Qwen3.5 and Kimi Linear.
//
//   q, k [dim, k_heads, tokens, batch]   v [dim, heads, tokens, batch]   g, beta [1, heads, tokens, batch], or g [dim, …]
//   state [dim, dim, heads, batch], the keys of a column together
//   dst: the outputs [dim, heads, tokens, batch], then the states after the last tokens, the newest first
#include <rapt/parallel.hpp>

#include "ggml/ops.hpp"

namespace rapt_ggml {

namespace {

rapt_strides strides_of(Tensor t) { return {stride(t, 3), stride(t, 1), stride(t, 2)}; }

}  // namespace

bool supports_delta_rule(Tensor op) {
  const Tensor q = op->src[0], k = op->src[1], v = op->src[2], g = op->src[3], beta = op->src[4],
               state = op->src[5];
  for (const Tensor t : {q, k, v, g, beta, state, op}) {
    if (!t || t->type != GGML_TYPE_F32 || is_empty(t) || !has_dense_rows(t) || !has_whole_strides(t))
      return false;
  }
  const std::int64_t dim = v->ne[0], heads = v->ne[1], tokens = v->ne[2], batch = v->ne[3];
  for (const Tensor t : {q, k}) {
    if (t->ne[0] != dim || heads % t->ne[1] != 0 || t->ne[2] != tokens || t->ne[3] != batch) return false;
  }
  if (q->ne[1] != k->ne[1] || (g->ne[0] != 1 && g->ne[0] != dim) || beta->ne[0] != 1) return false;
  for (const Tensor t : {g, beta}) {
    if (t->ne[1] != heads || t->ne[2] != tokens || t->ne[3] != batch) return false;
  }
  return int_param(op, 0) >= 1 && is_contiguous(state) && is_contiguous(op) &&
         static_cast<std::int64_t>(element_count(state)) == dim * dim * heads * batch;
}

void delta_rule(Graph &graph, Tensor op) {
  const Tensor q = op->src[0], k = op->src[1], v = op->src[2], g = op->src[3], beta = op->src[4],
               state = op->src[5];
  rapt_delta_rule_options options = RAPT_DELTA_RULE_OPTIONS_INIT;
  options.batch = extent(v, 3), options.tokens = extent(v, 2), options.key_dim = extent(v, 0);
  options.q_heads = options.k_heads = extent(q, 1), options.v_heads = extent(v, 1);
  options.interleaved_heads = 1;
  options.q_strides = strides_of(q), options.k_strides = strides_of(k), options.v_strides = strides_of(v);
  options.g = bytes_of(g), options.g_strides = strides_of(g);
  options.decay_per_key = g->ne[0] > 1;
  options.beta = bytes_of(beta), options.beta_strides = strides_of(beta);
  const auto dim = static_cast<std::ptrdiff_t>(options.key_dim),
             heads = static_cast<std::ptrdiff_t>(options.v_heads),
             tokens = static_cast<std::ptrdiff_t>(options.tokens),
             batch = static_cast<std::ptrdiff_t>(options.batch);
  options.out_strides = {tokens * heads * dim, dim, heads * dim};
  options.state = elements_of<float>(bytes_of(state));
  options.final_state = elements_of<float>(bytes_of(op)) + dim * heads * tokens * batch;
  options.state_strides = options.final_strides = {heads * dim * dim, dim * dim, 1, dim};
  options.state_window = static_cast<std::size_t>(int_param(op, 0));
  if (options.state_window > 1) options.window_stride = batch * heads * dim * dim;
  must(rapt::parallel_delta_rule(bytes_of(q), bytes_of(k), bytes_of(v), bytes_of(op), options,
                                 graph.engine.threads(), graph.engine.parts(), graph.engine.memory()));
}

}  // namespace rapt_ggml
