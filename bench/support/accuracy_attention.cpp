// The errors of attention and of its gradient.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "support/accuracy.hpp"
#include "support/accuracy_reference.hpp"
#include "support/attention.hpp"
#include "support/attention_backward.hpp"

namespace rapt::bench {
namespace {

// The output of one query.
template <class T>
std::vector<Exact> exact_attention(const AttentionProblem<T> &problem, std::size_t head, std::size_t i) {
  const AttentionShape &shape = problem.shape;
  const std::size_t first = shape.first_key(i), keys = shape.last_key(i) - first;
  const Exact scale = 1 / std::sqrt(Exact(shape.qk_dim)), softcap = shape.softcap;
  const std::size_t kv_row = head / shape.q_heads_per_kv_head() * shape.kv_len + first;
  const T *q = problem.q + (head * shape.q_len + i) * shape.qk_dim;
  std::vector<Exact> weights(keys);
  for (std::size_t j = 0; j < keys; ++j) {
    const T *k = problem.k + (kv_row + j) * shape.qk_dim;
    weights[j] = scale * sum_of(0, shape.qk_dim, [&](std::size_t d) { return Exact(q[d]) * k[d]; });
    if (softcap != 0) weights[j] = softcap * std::tanh(weights[j] / softcap);
  }
  const Exact max = *std::max_element(weights.begin(), weights.end());
  for (Exact &weight : weights) weight = std::exp(weight - max);
  Exact sum = sum_of(0, keys, [&](std::size_t j) { return weights[j]; });
  if (problem.sinks) sum += std::exp(problem.sinks[head] - max);
  std::vector<Exact> out(shape.v_dim, 0);
  for (std::size_t j = 0; j < keys; ++j) {
    const T *v = problem.v + (kv_row + j) * shape.v_dim;
    for (std::size_t d = 0; d < shape.v_dim; ++d) out[d] += weights[j] * v[d];
  }
  for (Exact &one : out) one /= sum;
  return out;
}

// The last queries of every head of a shape.
template <class T>
struct AttentionSample {
  AttentionBuffers<T> buffers;
  std::size_t first;                      // of the queries
  std::vector<std::vector<Exact>> exact;  // the outputs of a head, then of the next one
  Exact largest_value;
};

template <class T>
AttentionSample<T> make_sample(const AttentionShape &shape, bool with_sinks = false) {
  constexpr std::size_t most = 16;
  const std::size_t first = shape.q_len > most ? shape.q_len - most : 0;
  AttentionSample<T> sample = {AttentionBuffers<T>(shape, with_sinks), first, {}, 0};
  const AttentionProblem<T> problem = sample.buffers.problem();
  for (std::size_t head = 0; head < shape.q_heads; ++head) {
    for (std::size_t i = first; i < shape.q_len; ++i) {
      sample.exact.push_back(exact_attention(problem, head, i));
    }
  }
  for (std::size_t j = 0; j < shape.kv_heads * shape.kv_len * shape.v_dim; ++j) {
    sample.largest_value = std::max(sample.largest_value, std::fabs(Exact(problem.v[j])));
  }
  return sample;
}

// What the timed shapes have: causality, a window, a softcap, sinks, shared keys.
template <class T>
const std::vector<AttentionSample<T>> &attention_samples() {
  static const std::vector<AttentionSample<T>> all = [] {
    AttentionShape window = prompt_shape(1, 1, 1000, 64, 64, true);
    window.q_len = 150;
    window.window = 200;
    window.softcap = 50;
    std::vector<AttentionSample<T>> made;
    made.push_back(make_sample<T>(prompt_shape(1, 1, 100, 64, 64, true)));
    made.push_back(make_sample<T>(window));
    made.push_back(make_sample<T>(token_shape(4, 2, 4096, 64, 48), true));
    made.push_back(make_sample<T>(token_shape(2, 2, 500, 64, 64)));
    return made;
  }();
  return all;
}

struct ExactGradients {
  std::vector<Exact> dq, dk, dv;
};

// By the formulas, of one head.
template <class T>
ExactGradients exact_gradients(const AttentionGradientProblem<T> &problem) {
  const AttentionShape &shape = problem.forward.shape;
  const std::size_t n = shape.q_len, keys = shape.kv_len, dim = shape.qk_dim, v_dim = shape.v_dim;
  const T *q = problem.forward.q, *k = problem.forward.k, *v = problem.forward.v, *dout = problem.dout;
  const Exact scale = 1 / std::sqrt(Exact(dim));
  ExactGradients all = {std::vector<Exact>(n * dim), std::vector<Exact>(keys * dim),
                        std::vector<Exact>(keys * v_dim)};
  const auto dot = [](const T *a, const T *b, std::size_t length) {
    Exact sum = 0;
    for (std::size_t d = 0; d < length; ++d) sum += Exact(a[d]) * b[d];
    return sum;
  };
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t seen = shape.last_key(i);
    std::vector<Exact> w(seen), dw(seen);
    Exact sum = 0, mean = 0;
    for (std::size_t j = 0; j < seen; ++j) {
      w[j] = std::exp(scale * dot(&q[i * dim], &k[j * dim], dim));
      dw[j] = dot(&dout[i * v_dim], &v[j * v_dim], v_dim);
      sum += w[j];
    }
    for (std::size_t j = 0; j < seen; ++j) mean += (w[j] /= sum) * dw[j];
    for (std::size_t j = 0; j < seen; ++j) {
      const Exact g = w[j] * (dw[j] - mean) * scale;
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
Exact worst_error(const T *got, const std::vector<Exact> &exact) {
  Exact largest = 0;
  for (const Exact one : exact) largest = std::max(largest, std::fabs(one));
  Worst worst;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst.add(std::fabs(got[i] - exact[i]) / (largest * unit<T>));
  }
  return worst.value();
}

}  // namespace

template <class T>
double attention_error(Attention<T> attention) {
  Worst worst;
  for (const AttentionSample<T> &sample : attention_samples<T>()) {
    const AttentionProblem<T> problem = sample.buffers.problem();
    attention(problem);
    const std::size_t rows = problem.shape.q_len - sample.first, dim = problem.shape.v_dim;
    for (std::size_t row = 0; row < sample.exact.size(); ++row) {
      const std::size_t query = row / rows * problem.shape.q_len + sample.first + row % rows;
      for (std::size_t d = 0; d < dim; ++d) {
        const Exact error = std::fabs(problem.out[query * dim + d] - sample.exact[row][d]);
        worst.add(error / (sample.largest_value * unit<T>));
      }
    }
  }
  return worst.value();
}

template <class T>
double attention_backward_error(AttentionBackward<T> backward) {
  static const AttentionGradientBuffers<T> buffers(prompt_shape(1, 1, 100, 64, 64, true));
  static const ExactGradients exact = exact_gradients(buffers.problem());
  const AttentionGradientProblem<T> problem = buffers.problem();
  backward(problem);
  Worst worst;
  worst.add(worst_error(problem.dq, exact.dq));
  worst.add(worst_error(problem.dk, exact.dk));
  worst.add(worst_error(problem.dv, exact.dv));
  return worst.value();
}

#define RAPT_INSTANTIATE(T)                         \
  template double attention_error<T>(Attention<T>); \
  template double attention_backward_error<T>(AttentionBackward<T>);
RAPT_INSTANTIATE(float)
RAPT_INSTANTIATE(double)
#undef RAPT_INSTANTIATE

}  // namespace rapt::bench
