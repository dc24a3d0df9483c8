// Computes attention as two matrix products with a softmax between, for libraries that have only the
// products. The scores of a strip of queries stay in the cache. Keys that no query of the strip sees are
// skipped.
//
// The library supplies `products`:
//   scores(q, rows, q_stride, k, keys, dim, scale, s, s_stride): s = scale * q * k^T
//   values(s, rows, s_stride, v, keys, dim, out, out_stride): out = s * v
//   add_transposed(s, rows, s_stride, x, keys, dim, out): out += s^T * x; only the gradient needs it
//   most_rows(shape): the largest number of rows in a strip, at most attention_score_rows
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "functions.hpp"

namespace rapt::bench {

template <class T, class Products>
void attention_by_products(const AttentionProblem<T> &problem, AttentionWeights<T> weights,
                           const Products &products) {
  const AttentionShape &shape = problem.shape;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
  const T softcap = static_cast<T>(shape.softcap);

  for_each_strip(shape, products.most_rows(shape), [&](const Strip &strip) {
    const std::size_t rows = strip.rows, keys = strip.keys(), stride = attention_score_stride(keys);
    const T *q = problem.q + strip.q_row() * shape.qk_dim;
    const T *k = problem.k + strip.kv_row() * shape.qk_dim, *v = problem.v + strip.kv_row() * shape.v_dim;
    T *out = problem.out + strip.q_row() * shape.v_dim, *s = problem.scratch;
    products.scores(q, rows, shape.qk_dim, k, keys, shape.qk_dim, scale, s, stride);
    T factors[attention_score_rows];
    for (std::size_t r = 0; r < rows; ++r) {
      const T *sink = problem.sinks ? problem.sinks + strip.head_of(r) : nullptr;
      factors[r] = 1 / weights(s + r * stride, strip.begin(r), strip.end(r), keys, softcap, sink);
    }
    products.values(s, rows, stride, v, keys, shape.v_dim, out, shape.v_dim);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t d = 0; d < shape.v_dim; ++d) out[r * shape.v_dim + d] *= factors[r];
    }
  });
}

// Computes the gradient. Recomputes the scores and weights of each strip, then does four matrix products.
// Windows, softcaps and sinks are not supported.
template <class T, class Products>
void attention_gradient_by_products(const AttentionGradientProblem<T> &problem, AttentionWeights<T> weights,
                                    const Products &products) {
  const AttentionProblem<T> &forward = problem.forward;
  const AttentionShape &shape = forward.shape;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
  std::fill_n(problem.dk, shape.kv_heads * shape.kv_len * shape.qk_dim, T{0});
  std::fill_n(problem.dv, shape.kv_heads * shape.kv_len * shape.v_dim, T{0});

  for_each_strip(shape, products.most_rows(shape), [&](const Strip &strip) {
    const std::size_t rows = strip.rows, keys = strip.keys(), stride = attention_score_stride(keys);
    const std::size_t query = strip.q_row(), key = strip.kv_row();
    const T *q = forward.q + query * shape.qk_dim, *k = forward.k + key * shape.qk_dim;
    const T *v = forward.v + key * shape.v_dim;
    const T *out = forward.out + query * shape.v_dim, *dout = problem.dout + query * shape.v_dim;
    T *w = problem.scratch, *ds = w + attention_score_rows * stride;
    products.scores(q, rows, shape.qk_dim, k, keys, shape.qk_dim, scale, w, stride);
    products.scores(dout, rows, shape.v_dim, v, keys, shape.v_dim, T{1}, ds, stride);
    for (std::size_t r = 0; r < rows; ++r) {
      T *const weight = w + r * stride, *const gradient = ds + r * stride;
      const T factor = 1 / weights(weight, 0, strip.end(r), keys, T{0}, nullptr);
      T mean = 0;
      for (std::size_t d = 0; d < shape.v_dim; ++d)
        mean += out[r * shape.v_dim + d] * dout[r * shape.v_dim + d];
      for (std::size_t j = 0; j < keys; ++j) {
        weight[j] *= factor;
        gradient[j] = weight[j] * (gradient[j] - mean) * scale;
      }
    }
    products.values(ds, rows, stride, k, keys, shape.qk_dim, problem.dq + query * shape.qk_dim, shape.qk_dim);
    products.add_transposed(w, rows, stride, dout, keys, shape.v_dim, problem.dv + key * shape.v_dim);
    products.add_transposed(ds, rows, stride, q, keys, shape.qk_dim, problem.dk + key * shape.qk_dim);
  });
}

}  // namespace rapt::bench
