#include "support/attention_backward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace rapt::bench {
namespace {

template <class T>
std::size_t scratch_elements(const AttentionShape &shape) {
  std::size_t workspace = 0;
  const rapt_attention_options options = attention_options<T>(shape);
  require_ok(rapt_attention_backward_workspace(&options, &workspace));
  return std::max(workspace / sizeof(T) + 1, 2 * attention_score_rows * attention_score_stride(shape.kv_len));
}

// A tensor by rows, in long double.
template <class T>
std::vector<long double> exact_copy(const T *x, std::size_t n) {
  return std::vector<long double>(x, x + n);
}

struct ExactGradients {
  std::vector<long double> dq, dk, dv;
};

// By the formulas, one head.
template <class T>
ExactGradients exact_gradients(const AttentionGradientProblem<T> &problem) {
  const AttentionShape &shape = problem.forward.shape;
  const std::size_t n = shape.q_len, keys = shape.kv_len, dim = shape.qk_dim, v_dim = shape.v_dim;
  const auto q = exact_copy(problem.forward.q, n * dim), k = exact_copy(problem.forward.k, keys * dim);
  const auto v = exact_copy(problem.forward.v, keys * v_dim), dout = exact_copy(problem.dout, n * v_dim);
  const long double scale = 1 / std::sqrt(static_cast<long double>(dim));
  ExactGradients all = {std::vector<long double>(n * dim), std::vector<long double>(keys * dim),
                        std::vector<long double>(keys * v_dim)};
  const auto dot = [](const long double *a, const long double *b, std::size_t length) {
    long double sum = 0;
    for (std::size_t d = 0; d < length; ++d) sum += a[d] * b[d];
    return sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t seen = shape.last_key(i);
    std::vector<long double> w(seen), dw(seen);
    long double sum = 0, mean = 0;
    for (std::size_t j = 0; j < seen; ++j) {
      w[j] = std::exp(scale * dot(&q[i * dim], &k[j * dim], dim));
      dw[j] = dot(&dout[i * v_dim], &v[j * v_dim], v_dim);
      sum += w[j];
    }
    for (std::size_t j = 0; j < seen; ++j) mean += (w[j] /= sum) * dw[j];
    for (std::size_t j = 0; j < seen; ++j) {
      const long double g = w[j] * (dw[j] - mean) * scale;
      for (std::size_t d = 0; d < dim; ++d) {
        all.dq[i * dim + d] += g * k[j * dim + d];
        all.dk[j * dim + d] += g * q[i * dim + d];
      }
      for (std::size_t d = 0; d < v_dim; ++d) all.dv[j * v_dim + d] += w[j] * dout[i * v_dim + d];
    }
  }
  return all;
}

template <class T>
double worst_error(const T *got, const std::vector<long double> &exact) {
  long double worst = 0, largest = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::fabs(got[i] - exact[i]));
    largest = std::max(largest, std::fabs(exact[i]));
  }
  return static_cast<double>(worst / (largest * (std::numeric_limits<T>::epsilon() / 2)));
}

}  // namespace

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
      scratch_(scratch_elements<T>(shape)) {
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
void whole_attention_backward(const AttentionGradientProblem<T> &problem) {
  rapt_attention_options options = attention_options<T>(problem.forward.shape);
  options.lse = const_cast<T *>(problem.lse);  // only read
  rapt_attention_gradients gradients = RAPT_ATTENTION_GRADIENTS_INIT;
  gradients.out = problem.forward.out;
  gradients.dout = problem.dout;
  gradients.dq = problem.dq;
  gradients.dk = problem.dk;
  gradients.dv = problem.dv;
  require_ok(rapt_attention_backward(problem.forward.q, problem.forward.k, problem.forward.v, &options,
                                     &gradients, problem.scratch, problem.scratch_bytes));
}

template <class T>
double attention_backward_error(AttentionBackward<T> backward) {
  static const AttentionGradientBuffers<T> buffers(
      {.q_len = 100, .kv_len = 100, .qk_dim = 64, .v_dim = 64, .causal = true});
  static const ExactGradients exact = exact_gradients(buffers.problem());
  const AttentionGradientProblem<T> problem = buffers.problem();
  backward(problem);
  return std::max({worst_error(problem.dq, exact.dq), worst_error(problem.dk, exact.dk),
                   worst_error(problem.dv, exact.dv)});
}

#define RAPT_INSTANTIATE(T)                                                       \
  template class AttentionGradientBuffers<T>;                                     \
  template void whole_attention_backward<T>(const AttentionGradientProblem<T> &); \
  template double attention_backward_error<T>(AttentionBackward<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
