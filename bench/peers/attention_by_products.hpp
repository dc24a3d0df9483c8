// Attention of two matrix products with a softmax between them, as it is written where a library has the
// products alone. A block of queries at a time, whose scores stay in the cache; of the keys only those that
// some query of the block sees.
#pragma once

#include <cmath>
#include <cstddef>

#include "attention.hpp"
#include "peer.hpp"

namespace rapt::bench {

// products.scores(q, rows, q_stride, k, keys, dim, scale, s, s_stride) gives s = scale * q * k^T;
// products.values(s, rows, s_stride, v, keys, dim, out, out_stride) gives out = s * v.
// products.most_rows(shape) is how many queries make up a block, attention_score_rows at most.
// weights(row, begin, end, keys, softcap, sink) makes exp(s - max) of the scores from begin to end - 1, 0 of
// the others, and returns the sum.
template <class T, class Products>
void attention_by_products(const AttentionProblem<T> &problem, AttentionWeights<T> weights,
                           const Products &products) {
  const AttentionShape &shape = problem.shape;
  const std::size_t group = shape.group();
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
  const T softcap = static_cast<T>(shape.softcap);

  const auto block = [&](std::size_t head, std::size_t i, std::size_t rows) {
    const bool heads = shape.q_len == 1;
    const std::size_t first = shape.first_key(i), last = shape.last_key(heads ? i : i + rows - 1);
    const std::size_t keys = last - first, stride = attention_score_stride(keys);
    const T *q = problem.q + (head * shape.q_len + i) * shape.qk_dim;
    const T *k = problem.k + (head / group * shape.kv_len + first) * shape.qk_dim;
    const T *v = problem.v + (head / group * shape.kv_len + first) * shape.v_dim;
    T *out = problem.out + (head * shape.q_len + i) * shape.v_dim, *s = problem.scratch;
    products.scores(q, rows, shape.qk_dim, k, keys, shape.qk_dim, scale, s, stride);
    T factors[attention_score_rows];
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t row_head = heads ? head + r : head, row_i = heads ? i : i + r;
      factors[r] = 1 / weights(s + r * stride, shape.first_key(row_i) - first, shape.last_key(row_i) - first,
                               keys, softcap, problem.sinks ? problem.sinks + row_head : nullptr);
    }
    products.values(s, rows, stride, v, keys, shape.v_dim, out, shape.v_dim);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t d = 0; d < shape.v_dim; ++d) out[r * shape.v_dim + d] *= factors[r];
    }
  };

  for_each_block(shape, products.most_rows(shape), block);
}

// The gradient, block by block of queries: scores and their weights once more, then four products.
// products.add_transposed(s, rows, s_stride, x, keys, dim, out) gives out += s^T * x. No windows, softcaps or
// sinks.
template <class T, class Products>
void attention_gradient_by_products(const AttentionGradientProblem<T> &problem, AttentionWeights<T> weights,
                                    const Products &products) {
  const AttentionProblem<T> &forward = problem.forward;
  const AttentionShape &shape = forward.shape;
  const T scale = static_cast<T>(1 / std::sqrt(static_cast<double>(shape.qk_dim)));
  for (std::size_t i = 0; i < shape.kv_heads * shape.kv_len * shape.qk_dim; ++i) problem.dk[i] = 0;
  for (std::size_t i = 0; i < shape.kv_heads * shape.kv_len * shape.v_dim; ++i) problem.dv[i] = 0;

  const auto block = [&](std::size_t head, std::size_t i, std::size_t rows) {
    const std::size_t keys = shape.last_key(i + rows - 1), stride = attention_score_stride(keys);
    const std::size_t query = head * shape.q_len + i, key = head / shape.group() * shape.kv_len;
    const T *q = forward.q + query * shape.qk_dim, *k = forward.k + key * shape.qk_dim;
    const T *v = forward.v + key * shape.v_dim;
    const T *out = forward.out + query * shape.v_dim, *dout = problem.dout + query * shape.v_dim;
    T *w = problem.scratch, *ds = w + attention_score_rows * stride;
    products.scores(q, rows, shape.qk_dim, k, keys, shape.qk_dim, scale, w, stride);
    products.scores(dout, rows, shape.v_dim, v, keys, shape.v_dim, T{1}, ds, stride);
    for (std::size_t r = 0; r < rows; ++r) {
      T *const weight = w + r * stride, *const gradient = ds + r * stride;
      const T factor = 1 / weights(weight, 0, shape.last_key(i + r), keys, T{0}, nullptr);
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
  };

  for_each_block(shape, products.most_rows(shape), block);
}

}  // namespace rapt::bench
