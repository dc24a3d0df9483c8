#include "support/attention_backward.hpp"

namespace rapt::bench {
Work attention_backward_work(const AttentionShape &shape, std::size_t element_bytes) {
  const Work forward = attention_work(shape, element_bytes);
  const std::size_t pairs = forward.elements / (shape.qk_dim + shape.v_dim);
  const std::size_t queries = shape.q_heads * shape.q_len, keys = shape.kv_heads * shape.kv_len;
  return {.elements = pairs * (3 * shape.qk_dim + 2 * shape.v_dim),
          .element_bytes = element_bytes,
          .read = forward.read + 2 * queries * shape.v_dim * element_bytes,
          .written = (queries * shape.qk_dim + keys * (shape.qk_dim + shape.v_dim)) * element_bytes,
          .multiply_adds = true};
}

template <class T>
AttentionGradientBuffers<T>::AttentionGradientBuffers(const AttentionShape &shape)
    : forward_(shape),
      lse_(shape.q_heads * shape.q_len),
      dout_(logits<T>(shape.q_heads * shape.q_len * shape.v_dim, 0, 4)),
      dq_(shape.q_heads * shape.q_len * shape.qk_dim),
      dk_(shape.kv_heads * shape.kv_len * shape.qk_dim),
      dv_(shape.kv_heads * shape.kv_len * shape.v_dim),
      scratch_(scratch_elements<T>(shape, rapt_attention_backward_workspace, 2 * attention_score_rows)) {
  rapt_attention_options options = attention_options<T>(shape);
  options.lse = lse_.data();
  forward_.attention(options);
}

template <class T>
AttentionGradientProblem<T> AttentionGradientBuffers<T>::problem() const {
  return {.forward = forward_.problem(),
          .lse = lse_.data(),
          .dout = dout_.data(),
          .dq = dq_.data(),
          .dk = dk_.data(),
          .dv = dv_.data(),
          .scratch = scratch_.data(),
          .scratch_bytes = scratch_.size() * sizeof(T)};
}

template <class T>
AttentionGradientArguments<T>::AttentionGradientArguments(const AttentionGradientProblem<T> &problem)
    : options(attention_options<T>(problem.forward.shape)) {
  options.lse = const_cast<T *>(problem.lse);  // rapt only reads it
  gradients.out = problem.forward.out;
  gradients.dout = problem.dout;
  gradients.dq = problem.dq;
  gradients.dk = problem.dk;
  gradients.dv = problem.dv;
}

template <class T>
void whole_attention_backward(const AttentionGradientProblem<T> &problem) {
  const AttentionGradientArguments<T> a(problem);
  require_ok(rapt_attention_backward(problem.forward.q, problem.forward.k, problem.forward.v, &a.options,
                                     &a.gradients, problem.scratch, problem.scratch_bytes));
}

template <class T>
void run_of_attention_backward(const AttentionGradientProblem<T> &problem, std::size_t run, std::size_t runs,
                               void *workspace) {
  const AttentionGradientArguments<T> a(problem);
  std::size_t tasks = 0;
  require_ok(rapt_attention_backward_tasks(&a.options, &a.gradients, &tasks));
  require_ok(rapt_attention_backward_run(problem.forward.q, problem.forward.k, problem.forward.v, &a.options,
                                         &a.gradients, tasks * run / runs, tasks * (run + 1) / runs,
                                         workspace, problem.scratch_bytes));
}

#define RAPT_INSTANTIATE(T)                                                                                 \
  template struct AttentionGradientArguments<T>;                                                            \
  template class AttentionGradientBuffers<T>;                                                               \
  template void whole_attention_backward<T>(const AttentionGradientProblem<T> &);                           \
  template void run_of_attention_backward<T>(const AttentionGradientProblem<T> &, std::size_t, std::size_t, \
                                             void *);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
